-- The attempt counter lives as long as the token, so that extending the token does not reset it.
redis.call('EXPIRE', KEYS[2], ARGV[1])
return redis.call('EXPIRE', KEYS[1], ARGV[1])
