local grant = redis.call('HGET', KEYS[1], 'grant')
if grant then
  redis.call('HDEL', KEYS[1], 'grant')
  redis.call('HSET', KEYS[1], 'used', '1')
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  return {'fresh', grant}
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {'unknown', ''}
end
redis.call('HSET', KEYS[1], 'replayed', '1')
return {'replayed', redis.call('HGET', KEYS[1], 'given') or ''}
