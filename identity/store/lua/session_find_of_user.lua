-- All sessions of a user; ARGV[2] decides whether they end.
local found = {}
for _, hash in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local key = ARGV[1] .. hash
  local fields = redis.call('HGETALL', key)
  if #fields > 0 then
    fields[#fields + 1] = 'left'
    fields[#fields + 1] = tostring(redis.call('PTTL', key))
    found[#found + 1] = fields
    if ARGV[2] == 'end' then
      redis.call('DEL', ARGV[3] .. redis.call('HGET', key, 'id'), key)
    end
  end
end
if ARGV[2] == 'end' then
  redis.call('DEL', KEYS[1])
end
return found
