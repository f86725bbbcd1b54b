-- Says that requests still run: their slots are held on.
-- KEYS: the slots of an account, for each request. ARGV: for how long they are held (ms), then the name of each slot.
local time = redis.call('TIME')
local now, hold = time[1] * 1000 + time[2] / 1000, tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  redis.call('ZADD', key, string.format('%.17g', now + hold), ARGV[i + 1])
  redis.call('PEXPIRE', key, hold)
end
return #KEYS
