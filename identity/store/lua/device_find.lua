local hash = redis.call('GET', KEYS[1])
if not hash then
  return false
end
return redis.call('HMGET', ARGV[1] .. hash, 'status', 'grant', 'client', 'id', 'expires')
