if redis.call('HGET', KEYS[1], 'tenant') ~= ARGV[1] then
  return false
end
local link = redis.call('HGET', KEYS[1], 'link')
redis.call('DEL', KEYS[1])
return link
