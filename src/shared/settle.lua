-- Replaces what requests hold of the tokens of a minute by what they used. What of it has drained is not given back: what is there now is
-- others'. (The same sums as in `access/limits/bucket.rs`.)
-- KEYS: the minutes of an account, for each correction.
-- ARGV: for each, how many tokens a minute it has; how many were held and how many are to be; how many of those held were left, how far
-- the minutes had drained then, and since when they were counted.
-- Returns for each how many of its own are left now, how far the minutes have drained, and since when they are counted.
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000

local function exact(n)
  return string.format('%.17g', n)
end

local out = {}
for i, key in ipairs(KEYS) do
  local per_minute, before, after = tonumber(ARGV[6 * i - 5]), tonumber(ARGV[6 * i - 4]), tonumber(ARGV[6 * i - 3])
  local left, turned_then, born_then = tonumber(ARGV[6 * i - 2]), tonumber(ARGV[6 * i - 1]), ARGV[6 * i]
  local held = redis.call('HMGET', key, 'tokens', 'tokens_at', 'turned', 'born', 'requests')
  local tokens, turned = tonumber(held[1]) or 0, tonumber(held[3]) or 0
  local born = held[4] or (time[1] .. '.' .. time[2])
  local at = math.max(tonumber(held[2]) or now, now)
  local drained = math.min(tokens, (at - (tonumber(held[2]) or now)) * per_minute / 60000)
  if drained > 0 then
    turned = turned + math.min(math.log(tokens / (tokens - drained)), 1000)
    tokens = tokens - drained
  end
  -- What was counted before these minutes began is gone from them.
  if born == born_then then
    left = left * math.exp(math.min(turned_then - turned, 0))
  else
    left = 0
  end
  local rest = math.max(after - (before - left), 0)
  tokens = math.max(tokens - left + rest, 0)
  redis.call('HSET', key, 'tokens', exact(tokens), 'tokens_at', exact(at), 'turned', exact(turned), 'born', born)
  local last = math.min(math.ceil(tokens * 60000 / per_minute), 604800000) + 1000
  -- The requests of the minute are kept beside, for as long as they would be anyway.
  if last > redis.call('PTTL', key) then
    redis.call('PEXPIRE', key, last)
  end
  out[#out + 1] = exact(rest)
  out[#out + 1] = exact(turned)
  out[#out + 1] = born
end
return out
