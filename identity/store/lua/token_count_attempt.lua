-- A token with too many attempts is moved aside: it can no longer be found, but a caller that verified it earlier may
-- still consume it.
local found = redis.call('GET', KEYS[1])
if not found then
  return found
end
local tries = redis.call('INCR', KEYS[2])
redis.call('EXPIRE', KEYS[2], math.max(1, redis.call('TTL', KEYS[1])))
if tries > tonumber(ARGV[1]) then
  redis.call('RENAME', KEYS[1], KEYS[3])
  return false
end
return found
