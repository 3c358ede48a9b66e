-- A user code is not issued again while its grant is pending or approved.
local taken = redis.call('GET', KEYS[2])
if taken then
  local old = redis.call('HMGET', ARGV[1] .. taken, 'status', 'expires')
  if (old[1] == 'Pending' or old[1] == 'Approved') and tonumber(old[2]) > tonumber(ARGV[3]) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'status', 'Pending', 'grant', ARGV[5], 'client', ARGV[6], 'id', ARGV[7],
           'expires', ARGV[4], 'interval', ARGV[8])
redis.call('EXPIRE', KEYS[1], ARGV[9])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[9])
return 1
