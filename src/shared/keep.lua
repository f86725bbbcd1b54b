-- Keeps conversation states. Those of one scope stand together under one key, with the epoch that they are of.
-- KEYS: the scope's key, for each state. ARGV: for how long (s), and how many of a scope at most; then for each its epoch, its name, itself.
for i, key in ipairs(KEYS) do
  local epoch, name, state = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local known = redis.call('HGET', key, 'epoch')
  -- A scope that was erased since has a later one.
  if not known or tonumber(known) <= tonumber(epoch) then
    if known and (tonumber(known) < tonumber(epoch) or redis.call('HLEN', key) > tonumber(ARGV[2])) then
      redis.call('DEL', key)
    end
    redis.call('HSET', key, 'epoch', epoch, name, state)
    redis.call('EXPIRE', key, ARGV[1])
  end
end
return #KEYS
