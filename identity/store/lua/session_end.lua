-- If the session continues under a new secret, its id already refers to that one and remains.
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 0 then
  local name = ARGV[3] .. redis.call('HGET', KEYS[1], 'id')
  redis.call('ZREM', ARGV[1] .. redis.call('HGET', KEYS[1], 'user'), ARGV[2])
  if redis.call('GET', name) == ARGV[2] then
    redis.call('DEL', name)
  end
  redis.call('DEL', KEYS[1])
end
return fields
