"""The passwords that everybody tries first: our own list of the well known, in lower case.

A tenant with breachDetection refuses them whatever source its operator has, in any mixture of cases.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = """
000000 0000000 00000000 0123456789 0987654321 1111 11111 111111 1111111 11111111 1111111111 112233 11223344 121212
12121212 123 123123 12312312 123123123 123321 1234 12341234 12344321 12345 123454321 1234554321 123456 1234567 12345678
123456789 1234567890 12345678910 123456a 123456789a 1234qwer 123654 123abc 123qwe 123qweasd 123qweasdzxc 131313 147258
147258369 147852 147852369 159357 159753 1a2b3c 1a2b3c4d 1q2w3e 1q2w3e4r 1q2w3e4r5t 1q2w3e4r5t6y 1qaz2wsx 1qaz2wsx3edc
1qazxsw2 1qaz@wsx 2000 2020 2021 2022 2023 2024 2025 2026 222222 22222222 232323 246810 252525 333333 33333333 321321
4321 444444 44444444 456456 456789 54321 555555 55555555 5555555555 654321 666666 66666666 6969 696969 741852 741852963
753951 777777 7777777 77777777 7654321 789456 789456123 852456 87654321 88888888 888888 963852741 987654 98765432
987654321 9876543210 999999 99999999 999999999
a123456 a1234567 a12345678 a123456789 a1b2c3 a1b2c3d4 aa123456 aaa111 aaaa aaaaa aaaaaa aaaaaaaa ab123456 abc abc123
abc1234 abc12345 abc123456 abcabc abcd abcd123 abcd1234 abcd12345 abcde abcdef abcdefg abcdefgh abcdefghi access
access14 adidas admin admin1 admin12 admin123 admin1234 admin12345 admin@123 administrator adobe123 alexander alexis
amanda america andrea andrew angel angela angels anthony apple arsenal asdasd asdasdasd asdf asdf1234 asdfasdf asdfgh
asdfghj asdfghjk asdfghjkl asdfjkl ashley asshole austin azerty azertyuiop
babygirl bailey banana bandit barcelona barney baseball basketball batman beautiful benjamin bigdaddy biteme blahblah
blessed blink182 bluebird bonjour booboo boomer brandon brandy brooklyn bubbles buddy buster butterfly
california cameron carlos caroline carolina changeit changeme changeme1 changeme123 changepassword charles charlie
charlotte cheese chelsea cherry chester chicago chicken chocolate chris christian christopher cocacola coffee compaq
computer cookie cooper corvette cowboy cowboys creative crystal
daddy dakota dallas daniel danielle david default default123 dennis diamond dolphin donald dragon dragon1 dragonball
dubsmash
eagles edward einstein elephant elizabeth eminem england example
fall2024 fall2025 fernando ferrari fender fishing flower flowers fluffy foobar football football1 forever freedom
friends fuckme fuckoff fuckyou fuckyou1
gabriel garfield gateway genesis george ginger gizmo golden goldfish golfer google guest guest123 guitar gunner
hannah happy harley harrypotter heather hello hello1 hello123 helloworld hockey hottie hunter hunter2
iceman iloveu iloveyou iloveyou1 iloveyou2 infinity internet ironman isabella
jackson jaguar jasmine jasper jennifer jeremy jessica jesus jesus1 johnny johnson jonathan jordan jordan23 joseph
joshua junior justin
karina katherine killer kimberly knight kristina
ladybug lakers lauren leather legend letmein letmein1 letmein123 liverpool login london looking lovely lovelove loveme
loveyou lucky
madison maggie magic manchester manager marina marlboro martin marvin master master123 matrix matthew maverick maxwell
melissa mercedes merlin metallica michael michael1 michelle mickey midnight miller minecraft monica monkey monkey1
monkey123 monster morgan mother mustang mynoob mypassword mypass
naruto nascar natasha nathan nicholas nicole nintendo nirvana nopass nopassword nothing november
oliver onelove orange
p@55w0rd p@ssw0rd p@ssw0rd1 p@ssw0rd123 p@ssword p@ssword1 pa$$w0rd pa$$word pa55w0rd pa55word pakistan panther
parker pass pass1 pass123 pass1234 pass12345 pass@123 pass@word1 passion passpass passw0rd passw0rd1 passw0rd123
passwd password password! password0 password01 password1 password1! password10 password11 password12 password123
password123! password1234 password12345 password123456 password2 password2024 password2025 password2026 password3
password7 password9 password@1 password@123 passwort passwort1 patricia patrick peanut pepper phoenix photoshop
pikachu pokemon pokemon1 poohbear porsche prince princess princess1 purple pussy
q1w2e3 q1w2e3r4 q1w2e3r4t5 qazwsx qazwsx123 qazwsxedc qwaszx qwe123 qweasd qweasd123 qweasdzxc qweqwe qwer1234
qwerqwer qwert qwert1 qwert123 qwerty qwerty1 qwerty12 qwerty123 qwerty1234 qwerty12345 qwerty123456 qwerty7
qwertyu qwertyui qwertyuiop qwertz qwertzuiop
rabbit rachel raiders rainbow ranger rangers realmadrid rebecca redskins richard robert rockstar rocky root root123
rootroot rosebud russia
samantha samsung sandra saturn scooby scooter scorpion secret secret1 secret123 security september sergey
server service shadow shadow1 shannon shorty silver simple skywalker slayer slipknot smokey snickers snoopy soccer
soccer1 sophie spiderman spring2024 spring2025 spring2026 starwars startrek stella steven summer summer1 summer123
summer2023 summer2024 summer2025 summer2026 sunday sunflower sunshine sunshine1 superman superman1 superstar
supersecret support sweety system
target123 taylor teacher temp temp123 temp1234 temppass temppassword tennis test test1 test12 test123 test1234
test12345 test@123 tester testing testing123 testpass testpassword testtest thomas thunder thx1138 tigger tiger toor
topsecret trustno1 tweety twilight
user user123 user1234 username
valentina vanessa vampire victoria victory viking vincent virginia
walter warrior web welcome welcome! welcome1 welcome1! welcome12 welcome123 welcome2024 welcome2025 welcome@123
whatever william willow wilson winner winston winter winter2023 winter2024 winter2025 winter2026 wizard
xbox360 xxxxxx xxxxxxxx
yamaha yankees yellow
zaq12wsx zaq1zaq1 zaq1xsw2 zaqwsx zxasqw12 zxcasdqwe zxcvb zxcvbn zxcvbnm zxcvbnm1 zxcvbnm123 zxc123 zzzzzz
correcthorsebatterystaple hunter22 letmeinnow opensesame
"""

COMMON_PASSWORDS: Final = frozenset(_TEXT.split())
