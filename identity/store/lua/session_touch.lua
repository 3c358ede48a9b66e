-- Creates a session from the fields in ARGV[5...], or continues one; restarts its idle timeout.
local idle = tonumber(ARGV[1])
if #ARGV > 4 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 5))
end
local fields = redis.call('HGETALL', KEYS[1])
if #fields == 0 then
  return fields
end
redis.call('EXPIRE', KEYS[1], idle)
-- A sorted set of the user's sessions by expiry, so that expired sessions do not accumulate.
local users = ARGV[2] .. redis.call('HGET', KEYS[1], 'user')
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', users, '-inf', now)
redis.call('ZADD', users, now + idle, ARGV[3])
if redis.call('TTL', users) < idle then
  redis.call('EXPIRE', users, idle)
end
redis.call('SET', ARGV[4] .. redis.call('HGET', KEYS[1], 'id'), ARGV[3], 'EX', idle)
return fields
