local wait = redis.call('TTL', KEYS[1])
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
  return -1
end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return wait
end
redis.call('SADD', KEYS[1], ARGV[1])
if wait < 0 then
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return -1
