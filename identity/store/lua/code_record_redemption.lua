redis.call('HSET', KEYS[1], 'used', '1', 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
