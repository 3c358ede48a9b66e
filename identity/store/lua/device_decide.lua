-- The grant id must match, too: the user code may have been issued again since the caller read the grant.
local hash = redis.call('GET', KEYS[1])
if not hash then
  return 'Unknown'
end
local key = ARGV[1] .. hash
local found = redis.call('HMGET', key, 'status', 'id', 'expires')
if found[1] ~= 'Pending' or found[2] ~= ARGV[2] then
  return 'Unknown'
end
if tonumber(found[3]) <= tonumber(ARGV[3]) then
  return 'Expired'
end
redis.call('HSET', key, 'status', ARGV[4], 'approval', ARGV[5])
return ARGV[4]
