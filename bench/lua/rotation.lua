-- Uses every refresh token once and takes the next one from the answer.
-- Arguments: path, Authorization, file with a refresh token a line.

dofile("report.lua")

local path, headers, tokens = "", {}, {}

function init(args)
  path = args[1]
  headers = {["Authorization"] = args[2], ["Content-Type"] = "application/x-www-form-urlencoded"}
  for line in io.lines(args[3]) do table.insert(tokens, line) end
end

function request()
  -- The oldest first: every connection has its own turn, whatever the order of the answers.
  local token = table.remove(tokens, 1) or "none-is-left"
  return wrk.format("POST", path, headers, "grant_type=refresh_token&refresh_token=" .. token)
end

function response(status, _, body)
  local token = string.match(body, '"refresh_token":"([^"]+)"')
  if status == 200 and token then
    good = good + 1
    table.insert(tokens, token)
  else
    complain(status, body)
  end
end
