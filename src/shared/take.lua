-- Takes what a request needs of all its accounts, or nothing.
-- KEYS: for each account its minutes, and its slots.
-- ARGV: how many tokens must fit at least, must fit so that nobody need count, and are taken; the slot's name and how long it is held
-- (ms); then for each account how many requests and tokens a minute it has, and requests at a time (-1 = not limited).
-- Returns 0 = there is no room, 1 = only for the least, 2 = taken; the time (ms); and of each account what is used then: requests, tokens,
-- slots, how far its tokens have drained, and since when they are counted.
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local least, ample, take = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local slot, hold = ARGV[4], tonumber(ARGV[5])

local function exact(n)
  return string.format('%.17g', n)
end

local verdict, accounts = 2, {}
for i = 1, #KEYS / 2 do
  local a = {minutes = KEYS[2 * i - 1], slots = KEYS[2 * i]}
  a.max_requests, a.max_tokens, a.max_slots = tonumber(ARGV[3 + 3 * i]), tonumber(ARGV[4 + 3 * i]), tonumber(ARGV[5 + 3 * i])
  local held = redis.call('HMGET', a.minutes, 'requests', 'requests_at', 'tokens', 'tokens_at', 'turned', 'born')
  a.requests, a.tokens, a.turned = tonumber(held[1]) or 0, tonumber(held[3]) or 0, tonumber(held[5]) or 0
  a.born = held[6] or (time[1] .. '.' .. time[2])
  -- A clock that was set back drains nothing.
  a.requests_at = math.max(tonumber(held[2]) or now, now)
  a.tokens_at = math.max(tonumber(held[4]) or now, now)
  if a.max_requests > 0 then
    local passed = a.requests_at - (tonumber(held[2]) or now)
    a.requests = math.max(a.requests - passed * a.max_requests / 60000, 0)
  end
  if a.max_tokens > 0 then
    local passed = a.tokens_at - (tonumber(held[4]) or now)
    local drained = math.min(a.tokens, passed * a.max_tokens / 60000)
    if drained > 0 then
      a.turned = a.turned + math.min(math.log(a.tokens / (a.tokens - drained)), 1000)
      a.tokens = a.tokens - drained
    end
  end
  a.running = 0
  local has_slot = true
  if a.max_slots >= 0 then
    redis.call('ZREMRANGEBYSCORE', a.slots, '-inf', now)
    a.running = redis.call('ZCARD', a.slots)
    has_slot = a.running < a.max_slots
  end
  local has_request = a.max_requests < 0 or a.requests + 1 <= a.max_requests + 1e-6
  local function fits(n)
    return a.max_tokens < 0 or a.tokens + n <= a.max_tokens + 1e-6
  end
  if not (has_slot and has_request and fits(least)) then
    verdict = 0
  elseif not fits(ample) then
    verdict = math.min(verdict, 1)
  end
  accounts[i] = a
end

local out = {verdict, exact(now)}
for _, a in ipairs(accounts) do
  if verdict == 2 then
    local last = 0
    if a.max_requests > 0 then
      a.requests = a.requests + 1
      last = a.requests * 60000 / a.max_requests
    end
    if a.max_tokens > 0 then
      a.tokens = a.tokens + take
      last = math.max(last, a.tokens * 60000 / a.max_tokens)
    end
    if last > 0 then
      redis.call('HSET', a.minutes, 'requests', exact(a.requests), 'requests_at', exact(a.requests_at), 'tokens', exact(a.tokens),
        'tokens_at', exact(a.tokens_at), 'turned', exact(a.turned), 'born', a.born)
      -- Longer than it takes to drain it need not be kept; a week at most.
      redis.call('PEXPIRE', a.minutes, math.min(math.ceil(last), 604800000) + 1000)
    end
    if a.max_slots >= 0 then
      redis.call('ZADD', a.slots, exact(now + hold), slot)
      redis.call('PEXPIRE', a.slots, hold)
      a.running = a.running + 1
    end
  end
  out[#out + 1] = exact(a.requests)
  out[#out + 1] = exact(a.tokens)
  out[#out + 1] = tostring(a.running)
  out[#out + 1] = exact(a.turned)
  out[#out + 1] = a.born
end
return out
