-- The code grant of browsers with a session: each code that a redirect brings is exchanged by the next free request.
-- Arguments: query of the authorization request, form of the token request without its code, Authorization,
-- file with a Cookie header a line. `good` counts token responses.

dofile("report.lua")

local authorize, form, headers, browsers, codes, turn = "", "", {}, {}, {}, 0

function init(args)
  authorize, form = "/oauth2/authorize?" .. args[1], args[2]
  headers = {["Authorization"] = args[3], ["Content-Type"] = "application/x-www-form-urlencoded"}
  for line in io.lines(args[4]) do
    table.insert(browsers, wrk.format("GET", authorize, {["Cookie"] = line}))
  end
end

function request()
  local code = table.remove(codes)
  if code then return wrk.format("POST", "/oauth2/token", headers, form .. "&code=" .. code) end
  turn = turn % #browsers + 1
  return browsers[turn]
end

function response(status, head, body)
  local code = status == 302 and string.match(head["Location"] or "", "[?&]code=([^&]+)")
  if code then
    table.insert(codes, code)
  elseif status == 200 and string.find(body, '"access_token"', 1, true) then
    good = good + 1
  else
    complain(status, head["Location"] or body)
  end
end
