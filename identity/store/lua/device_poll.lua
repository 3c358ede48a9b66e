local found = redis.call('HMGET', KEYS[1], 'status', 'client', 'expires', 'interval', 'polled', 'grant', 'approval')
if not found[1] or found[2] ~= ARGV[1] then
  return {'Unknown'}
end
if found[1] == 'Consumed' then
  redis.call('HSET', KEYS[1], 'replayed', '1')
  return {'Consumed', redis.call('HGET', KEYS[1], 'given') or ''}
end
local now = tonumber(ARGV[2])
if tonumber(found[3]) <= now then
  return {'Expired'}
end
if found[1] == 'Approved' then
  redis.call('HSET', KEYS[1], 'status', 'Consumed')
  redis.call('HDEL', KEYS[1], 'grant', 'approval')
  redis.call('EXPIRE', KEYS[1], ARGV[3])
  return {'Approved', found[6], found[7]}
end
if found[1] == 'Pending' then
  if found[5] and now < tonumber(found[5]) + tonumber(found[4]) * 1000 - tonumber(ARGV[5]) then
    redis.call('HINCRBY', KEYS[1], 'interval', ARGV[4])
    return {'TooFast'}
  end
  redis.call('HSET', KEYS[1], 'polled', ARGV[2])
end
return {found[1]}
