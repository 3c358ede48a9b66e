if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return redis.call('TTL', KEYS[1])
end
return -1
