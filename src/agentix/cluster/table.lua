-- One exchange between a gateway and the shared table. Atomic: nobody sees half of it, and it is done or not done.
--
-- KEYS  1  index: programs by the number of their last change (sorted set)
--       2  `number`, the last number given, and `epoch`, which is another one if the table was lost (hash)
--       3  gateways: when each was here last, in ms, and its calls in engines, as JSON (hash)
-- ARGV  1  what the keys of programs begin with
--       2  the gateway
--       3  its calls in engines (JSON); empty: it leaves
--       4  the number of the last change that it has heard of
--       5  how many changed programs it wants to hear of, at most
--       6  for how many ms a program is kept after its last change, 7 one that is over, 8 a gateway that is silent
--       9  what it tells (JSON), see `Told`
-- Returns JSON, see `News`.
--
-- A program is a hash. Every value in it is JSON that a gateway has written: `life`, a number; accounts under names that begin
-- with `a:`, lists of numbers; the rest pairs of a version and a value.

local prefix, gateway, since, most = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local told = cjson.decode(ARGV[9])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- What others have changed. Before what this one tells, or it would hear of that too.
local changed = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local records, heard_of = {}, since
for i = 1, #changed, 2 do
  local fields = redis.call('HGETALL', prefix .. changed[i])
  heard_of = changed[i + 1]
  if #fields == 0 then
    redis.call('ZREM', KEYS[1], changed[i])
  else
    local parts = {}
    for j = 1, #fields, 2 do
      parts[#parts + 1] = '"' .. fields[j] .. '":' .. fields[j + 1]
    end
    records[#records + 1] = cjson.encode(changed[i]) .. ':{' .. table.concat(parts, ',') .. '}'
  end
end
local has_more = #changed == 2 * most

redis.call('HSETNX', KEYS[2], 'epoch', string.format('%d%s', now_ms, gateway))
local number = redis.call('HINCRBY', KEYS[2], 'number', #told) - #told
for _, item in ipairs(told) do
  local id, life, account, numbers, common = item[1], item[2], item[3], item[4], item[5]
  local key = prefix .. id
  local known = tonumber(redis.call('HGET', key, 'life') or -1)
  number = number + 1
  if life > known then
    redis.call('DEL', key)
    redis.call('HSET', key, 'life', string.format('%d', life))
  end
  if life >= known then
    if account ~= '' then
      redis.call('HSET', key, account, numbers)
    end
    for _, said in ipairs(common) do
      local name, version, value = said[1], said[2], said[3]
      local before = redis.call('HGET', key, name)
      if not before or version > tonumber(string.match(before, '%d+')) then
        redis.call('HSET', key, name, value)
      end
    end
    redis.call('PEXPIRE', key, redis.call('HLEN', key) > 1 and ARGV[6] or ARGV[7])
    redis.call('ZADD', KEYS[1], string.format('%d', number), id)
  end
end

-- Those told of longest ago expire first: forget a few more of them than were told of now.
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, #told)) do
  if redis.call('EXISTS', prefix .. id) == 1 then break end
  redis.call('ZREM', KEYS[1], id)
end

if ARGV[3] == '' then
  redis.call('HDEL', KEYS[3], gateway)
else
  redis.call('HSET', KEYS[3], gateway, string.format('%d %s', now_ms, ARGV[3]))
end
local gateways, seen = {}, redis.call('HGETALL', KEYS[3])
for i = 1, #seen, 2 do
  local at, loads = string.match(seen[i + 1], '^(%d+) (.*)$')
  if now_ms - tonumber(at) > tonumber(ARGV[8]) then
    redis.call('HDEL', KEYS[3], seen[i])
  else
    gateways[#gateways + 1] = '"' .. seen[i] .. '":' .. loads
  end
end

-- A server that was started again may have gone back to an earlier state of the same table.
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') .. redis.call('HGET', KEYS[2], 'epoch')
return string.format(
  '{"server":"%s","number":%s,"more":%s,"records":{%s},"gateways":{%s}}',
  server, has_more and heard_of or string.format('%d', number), tostring(has_more),
  table.concat(records, ','), table.concat(gateways, ',')
)
