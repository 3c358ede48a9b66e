local found = redis.call('GET', KEYS[1]) or redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
return found
