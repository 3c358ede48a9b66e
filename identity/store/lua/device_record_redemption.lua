redis.call('HSET', KEYS[1], 'status', 'Consumed', 'client', ARGV[3], 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
