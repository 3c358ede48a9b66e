if redis.call('HGET', KEYS[1], 'browser') ~= ARGV[1] then
  return false
end
local found = redis.call('HMGET', KEYS[1], 'tenant', 'detour')
redis.call('DEL', KEYS[1])
return found
