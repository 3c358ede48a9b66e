-- Sends prepared requests, one after the other and again from the first.
-- Arguments: method, path, file, expected, pause in milliseconds.
--   file      one request a line: headers and at last the body, separated by tabs
--   expected  what the Location of each answer must contain; "-" where any status below 400 will do

dofile("report.lua")

local prepared, turn = {}, 0

function init(args)
  local method, path, file, expected, pause = args[1], args[2], args[3], args[4], tonumber(args[5])
  for line in io.lines(file) do
    local fields = {}
    for field in string.gmatch(line .. "\t", "([^\t]*)\t") do table.insert(fields, field) end
    local body, headers = table.remove(fields), {}
    for _, field in ipairs(fields) do
      local name, value = string.match(field, "^([^:]+): (.*)$")
      headers[name] = value
    end
    table.insert(prepared, wrk.format(method, path, headers, body ~= "" and body or nil))
  end
  if pause > 0 then
    delay = function() return pause end
  end
  if expected ~= "-" then
    response = function(status, headers, body)
      if string.find(headers["Location"] or "", expected, 1, true) then good = good + 1 else complain(status, body) end
    end
  end
end

function request()
  turn = turn % #prepared + 1
  return prepared[turn]
end
