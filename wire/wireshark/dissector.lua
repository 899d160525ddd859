-- The hand-written part of dafs.lua: finds DAFS messages in iWARP and InfiniBand, matches responses with requests, and
-- shows the fields that the tables before it describe (wire/wireshark/tables.h).
--
-- Spec: docs/wire.md, sections 2, 3, 5 and 8 to 10. Every offset, count and length is checked before it is used, as
-- the decoder does (wire/codec/decoder.h). A message that fails a check gets the expert item dafs.malformed; its
-- dissection ends there. For Lua 5.2 to 5.4: no library of bit operations is the same in all of them.

local dafs = Proto("dafs", "Direct Access File System")

local REQUEST, RESPONSE = 0x44414653, 0x44414652
local HEADER = 40
local MOST_ITEMS = 20000        -- shown of one message: overlapping arrays could describe billions
local MOST_BYTES = 16 * 2 ^ 20  -- of a message in several segments
local FETCH_RESPONSE, GET_FSATTR, OPEN = 111, 122, 134
local READ_INLINE, WRITE_INLINE, APPEND_INLINE = 137, 149, 156

local function has_bit(value, bit)
  return math.floor(value / 2 ^ bit) % 2 == 1
end

local function align(position, alignment)
  return position + (alignment - position % alignment) % alignment
end

-- Fields: those of the header, and one for each field name of the tables.

local procedure_names = {}
for number, procedure in pairs(procedures) do procedure_names[number] = procedure.name end

local taken = {}  -- names that no field of the tables gets

local function own_field(make, name, ...)
  taken["dafs." .. name] = true
  return make("dafs." .. name, ...)
end

local own = {
  magic = own_field(ProtoField.uint32, "magic", "Magic", base.HEX),
  version = own_field(ProtoField.uint32, "version", "Protocol version"),
  desired_nreq = own_field(ProtoField.uint16, "desired_nreq", "Desired requests"),
  target_nreq = own_field(ProtoField.uint16, "target_nreq", "Target requests"),
  chain_flags = own_field(ProtoField.uint16, "chain_flags", "Chain flags", base.HEX),
  chain_forw = own_field(ProtoField.bool, "chain_flags.forw", "Another member follows", 16, nil, 0x01),
  chain_back = own_field(ProtoField.bool, "chain_flags.back", "Follows a member", 16, nil, 0x02),
  chain_save = own_field(ProtoField.bool, "chain_flags.save", "Save", 16, nil, 0x04),
  chain_fh = own_field(ProtoField.bool, "chain_flags.fh", "Uses the current filehandle", 16, nil, 0x08),
  chain_stateid = own_field(ProtoField.bool, "chain_flags.stateid", "Uses the current state id", 16, nil, 0x10),
  chain_attributes = own_field(ProtoField.bool, "chain_flags.attributes", "Wants attributes", 16, nil, 0x0100),
  chain_other = own_field(ProtoField.bool, "chain_flags.other_attributes", "Wants other attributes", 16, nil, 0x0200),
  chain_member = own_field(ProtoField.uint32, "chain.member", "Member of a chain"),
  chain_first = own_field(ProtoField.framenum, "chain.first_in", "First member in", base.NONE),
  spec_cond = own_field(ProtoField.uint16, "spec_cond", "Special conditions", base.HEX),
  cond_lmoved = own_field(ProtoField.bool, "spec_cond.lmoved", "Lease moved", 16, nil, 0x0001),
  cond_failover = own_field(ProtoField.bool, "spec_cond.failover", "Failover locations changed", 16, nil, 0x0002),
  cond_promises = own_field(ProtoField.uint16, "spec_cond.promises", "Promises", base.HEX, nil, 0x0f00),
  cond_fenced = own_field(ProtoField.bool, "spec_cond.fenced", "Fenced off", 16, nil, 0x1000),
  cond_broken = own_field(ProtoField.bool, "spec_cond.broken_lock", "Broken lock", 16, nil, 0x2000),
  stream_id = own_field(ProtoField.uint16, "stream_id", "Stream"),
  seq_number = own_field(ProtoField.uint16, "seq_number", "Sequence number"),
  analyzer = own_field(ProtoField.bytes, "analyzer", "Analyzer"),
  checksum = own_field(ProtoField.bytes, "message_checksum", "Message checksum (S2, S1)"),
  cred = own_field(ProtoField.bytes, "cred", "Credential handle"),
  status = own_field(ProtoField.uint32, "status", "Status", base.DEC, statuses),
  proc_number = own_field(ProtoField.uint32, "proc_number", "Procedure", base.DEC, procedure_names),
  proc = own_field(ProtoField.string, "proc", "Request"),
  response_of = own_field(ProtoField.string, "response_of", "Response to"),
  request_len = own_field(ProtoField.uint32, "request_len", "Request length"),
  response_len = own_field(ProtoField.uint32, "response_len", "Response length"),
  request_in = own_field(ProtoField.framenum, "request_in", "Request in", base.NONE, frametype.REQUEST),
  response_in = own_field(ProtoField.framenum, "response_in", "Response in", base.NONE, frametype.RESPONSE),
  time = own_field(ProtoField.relative_time, "time", "Time since the request"),
  name = own_field(ProtoField.string, "name", "Name"),
  data = own_field(ProtoField.bytes, "data", "Inline data"),
  segment = own_field(ProtoField.bytes, "segment", "Segment of a message"),
}
local malformed = ProtoExpert.new("dafs.malformed", "Malformed DAFS message", expert.group.MALFORMED,
                                  expert.severity.ERROR)
local unknown = ProtoExpert.new("dafs.unknown", "Not understood", expert.group.UNDECODED, expert.severity.NOTE)
local failed = ProtoExpert.new("dafs.failed", "Request failed", expert.group.RESPONSE_CODE, expert.severity.NOTE)

local UNSIGNED = {u8 = true, u16 = true, u32 = true, u64 = true}
local SIGNED = {i32 = true, i64 = true}
local BYTES = {bytes = true, opaque = true}
local TEXT = {string = true, name = true, path = true}
local SIZES = {u8 = 1, u16 = 2, u32 = 4, u64 = 8, i32 = 4, i64 = 8, bool8 = 1, bool32 = 4, mode = 4}
-- Numbers that are sets of bits.
local HEXADECIMAL = {access = true, supported = true, options = true, attr_request_bitmap = true, wanted = true,
                     granted = true, share_access = true, flags = true, cache_hint = true, buffer_address = true,
                     buffer_handle = true, included = true, valid = true}

-- What a field holds. Fields of one name that hold the same share one field of Wireshark.
local function holds(field)
  if field.enum then return "enum " .. field.enum end
  if field.k == "u32" and field.n == "status" then return "status" end
  if UNSIGNED[field.k] then return "unsigned" end
  if SIGNED[field.k] then return "signed" end
  if BYTES[field.k] then return "bytes" end
  if TEXT[field.k] then return "text" end
  if field.k == "bool8" or field.k == "bool32" then return "bool" end
  return field.k
end

local function make_field(kind, abbreviation, name, enum)
  if kind == "unsigned" then
    return ProtoField.uint64(abbreviation, name, HEXADECIMAL[name] and base.HEX or base.DEC)
  elseif kind == "signed" then
    return ProtoField.int64(abbreviation, name)
  elseif kind == "status" then
    return ProtoField.uint32(abbreviation, name, base.DEC, statuses)
  elseif kind == "bool" then
    return ProtoField.bool(abbreviation, name)
  elseif kind == "mode" then
    return ProtoField.uint32(abbreviation, name, base.OCT)
  elseif kind == "bytes" then
    return ProtoField.bytes(abbreviation, name)
  elseif kind == "text" then
    return ProtoField.string(abbreviation, name)
  elseif kind == "time" then
    return ProtoField.absolute_time(abbreviation, name, base.UTC)
  end
  return ProtoField.uint32(abbreviation, name, base.DEC, enums[enum])
end

local function visit_fields(fields, place, visit)
  for _, field in ipairs(fields) do
    if field.k == "union" then
      for _, arm in ipairs(field.arms) do visit_fields(arm.f, place, visit) end
    elseif field.k == "array" then
      if field.e.n == "" then field.e.n = field.n end
      visit_fields({field.e}, place, visit)
    elseif field.f then
      visit_fields(field.f, place, visit)
    elseif field.k ~= "attributes" then
      visit(field, place)
    end
  end
end

-- The values of a table whose keys are numbers, by ascending key.
local function in_order(numbered)
  local numbers, values = {}, {}
  for number in pairs(numbered) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for index, number in ipairs(numbers) do values[index] = numbered[number] end
  return values
end

-- Gives each field of the tables its field of Wireshark: dafs.NAME, or dafs.PROCEDURE.NAME for a name that holds
-- different things in different messages.
local function register_fields()
  local all, kinds, made = {}, {}, {}
  local function collect(field, place)
    all[#all + 1] = {field, place}
    local key = place.prefix .. field.n:lower()
    kinds[key] = kinds[key] or {}
    kinds[key][holds(field)] = true
  end
  for _, procedure in ipairs(in_order(procedures)) do
    local place = {prefix = "dafs.", inner = "dafs." .. procedure.name:lower() .. "."}
    visit_fields(procedure.args, place, collect)
    visit_fields(procedure.res, place, collect)
  end
  for _, each in ipairs(file_attributes) do visit_fields({each.f}, {prefix = "dafs.attr."}, collect) end
  for _, each in ipairs(fs_attributes) do visit_fields({each.f}, {prefix = "dafs.fsattr."}, collect) end

  local list = {}
  for _, field in pairs(own) do list[#list + 1] = field end
  for _, each in ipairs(all) do
    local field, place = each[1], each[2]
    local key, kind = place.prefix .. field.n:lower(), holds(field)
    local several = taken[key] or next(kinds[key], next(kinds[key])) ~= nil
    local abbreviation = several and place.inner and place.inner .. field.n:lower() or key
    if made[abbreviation] and made[abbreviation].kind ~= kind then abbreviation = abbreviation .. "_" .. kind end
    if not made[abbreviation] then
      made[abbreviation] = {kind = kind, field = make_field(kind, abbreviation, field.n, field.enum)}
      list[#list + 1] = made[abbreviation].field
    end
    field.field = made[abbreviation].field
  end
  dafs.fields = list
  dafs.experts = {malformed, unknown, failed}
end
register_fields()

for _, procedure in pairs(procedures) do
  local function prepare(fields)
    for _, field in ipairs(fields) do
      if field.k == "union" then
        field.arm_of = {}
        for _, arm in ipairs(field.arms) do
          for _, value in ipairs(arm.v) do field.arm_of[value] = arm.f end
          prepare(arm.f)
        end
      elseif field.e then
        prepare({field.e})
      elseif field.f then
        prepare(field.f)
      end
    end
  end
  prepare(procedure.args)
  prepare(procedure.res)
end

-- The state of a capture, filled when its frames are seen first and in order.

local pending     -- key of a request without a response -> call
local calls       -- id of a message -> its call: {frame, time, proc, claim, result_of, member, first, response}
local responses   -- id of a response -> the call that it answers
local chains      -- connection -> {member, first} of the chain that its last request continues
local speaks      -- TCP stream -> true, if it has carried a DAFS message
local partial     -- id of a message in several segments -> {segments, size, total, message, frame, at}

function dafs.init()
  pending, calls, responses, chains, speaks, partial = {}, {}, {}, {}, {}, {}
end

-- Reading. `m` is the message: {tvb, size, little, items, failed, values, names, status}.

local function u32(m, at)
  local range = m.tvb(at, 4)
  if m.little then return range:le_uint() end
  return range:uint()
end

local function u16(m, at)
  local range = m.tvb(at, 2)
  if m.little then return range:le_uint() end
  return range:uint()
end

-- The two halves of a u64, the lower one first.
local function u64_halves(m, at)
  local first, second = u32(m, at), u32(m, at + 4)
  if m.little then return first, second end
  return second, first
end

local function fail(m, tree, text)
  m.failed = true
  tree:add_proto_expert_info(malformed, text)
end

-- Whether `size` bytes at `at` are inside the message.
local function have(m, tree, at, size, what)
  if m.failed then return false end
  if at <= m.size and size <= m.size - at then return true end
  fail(m, tree, string.format("%s: %.0f bytes at %.0f of %d", what, size, at, m.size))
  return false
end

local function add(m, tree, field, at, size)
  if m.little then return tree:add_le(field, m.tvb(at, size)) end
  return tree:add(field, m.tvb(at, size))
end

-- The position of the item to which the offset at `at` leads; nil if there is none. `scope`: what offsets are relative
-- to, and `fixed_end`: the end of the fixed part, before which no item may be.
local function item_at(m, tree, field, at, scope, fixed_end)
  local offset = u32(m, at)
  if offset == 0 then
    if field.required and not m.all_zero then fail(m, tree, field.n .. ": missing") end
    return nil
  end
  if offset % 8 ~= 0 or scope + offset < fixed_end then
    fail(m, tree, string.format("%s: offset %.0f", field.n, offset))
    return nil
  end
  return scope + offset
end

local show  -- function(m, tree, field, base, scope, fixed_end)

local function show_all(m, tree, fields, base, scope, fixed_end)
  for _, field in ipairs(fields) do
    if m.failed then return end
    show(m, tree, field, base, scope, fixed_end)
  end
end

local function add_name(m, tree, range, text)
  tree:add(own.name, range, text):set_hidden()
  m.names[#m.names + 1] = text
end

-- Counted bytes. Returns the range of the item and its text, nil if it is damaged.
local function counted(m, tree, at, what)
  if not have(m, tree, at, 4, what) then return nil end
  local size = u32(m, at)
  if not have(m, tree, at + 4, size, what) then return nil end
  return m.tvb(at, 4 + size), size, size > 0 and m.tvb(at + 4, size):string(ENC_UTF_8) or ""
end

local function show_string(m, tree, field, at)
  local range, size, text = counted(m, tree, at, field.n)
  if not range then return end
  if size == 0 and field.required then return fail(m, tree, field.n .. ": empty") end
  if field.k == "opaque" then
    if size > 0 then tree:add(field.field, m.tvb(at + 4, size)) end
    return
  end
  tree:add(field.field, range, text)
  if field.k == "name" or field.n == "name_offset" then add_name(m, tree, range, text) end
end

local function show_path(m, tree, field, at)
  if not have(m, tree, at, 8, field.n) then return end
  local count, position, parts = u32(m, at), at + 8, {}
  for _ = 1, count do
    position = align(position, 8)
    local range, size, text = counted(m, tree, position, field.n)
    if not range then return end
    parts[#parts + 1] = text
    position = position + 4 + size
  end
  local range, text = m.tvb(at, position - at), table.concat(parts, field.sep or "/")
  tree:add(field.field, range, text)
  if not field.sep then add_name(m, tree, range, text) end
end

local function show_array(m, tree, field, at)
  if not have(m, tree, at, 4, field.n) then return end
  local count = u32(m, at)
  local size = field.head + count * field.s
  if not have(m, tree, at, size, field.n) then return end
  if count == 0 and field.required then return fail(m, tree, field.n .. ": empty") end
  local array = tree:add(m.tvb(at, size), string.format("%s: %d", field.n, count))
  for index = 0, count - 1 do
    if m.failed then return end
    show(m, array, field.e, at + field.head + index * field.s, at, at + size)
  end
end

local function show_attributes(m, tree, field, at)
  if not have(m, tree, at, 16, field.n) then return end
  local included, included_high = u64_halves(m, at)
  local valid, valid_high = u64_halves(m, at + 8)
  local present, is_valid, places, position = 0, 0, {}, 16
  local high = 2 ^ 32
  for index, each in ipairs(field.of) do
    local bit = each.b % 32
    local words = each.b < 32
    if has_bit(words and included or included_high, bit) then
      present = present + 2 ^ each.b
      position = align(position, each.a)
      if has_bit(words and valid or valid_high, bit) then
        is_valid = is_valid + 2 ^ each.b
        places[#places + 1] = {each.f, position}
      else
        places[#places + 1] = {each.f}
      end
      position = position + each.s
    end
  end
  if present ~= included + included_high * high then return fail(m, tree, field.n .. ": unknown attributes") end
  if is_valid ~= valid + valid_high * high then
    return fail(m, tree, field.n .. ": valid attributes that are not included")
  end
  local size = align(position, 8)
  if not have(m, tree, at, size, field.n) then return end
  local attributes = tree:add(m.tvb(at, size), string.format("%s: %d", field.n, #places))
  local absent = {}
  for _, place in ipairs(places) do
    if m.failed then return end
    if place[2] then
      show(m, attributes, place[1], at + place[2], at, at + size)
    else
      absent[#absent + 1] = place[1].n
    end
  end
  if #absent > 0 then attributes:append_text(", not valid: " .. table.concat(absent, " ")) end
end

local in_heap = {string = show_string, opaque = show_string, name = show_string, path = show_path,
                 array = show_array, attributes = show_attributes}

local function show_time(m, tree, field, at)
  local range = m.tvb(at, 8)
  local seconds = (m.little and range:le_int64() or range:int64()):tonumber()
  local nanoseconds = u32(m, at + 8)
  if nanoseconds > 999999999 then return fail(m, tree, field.n .. ": nanoseconds") end
  if math.abs(seconds) > 2 ^ 40 then  -- no such date
    tree:add(m.tvb(at, 16), string.format("%s: %.0f s", field.n, seconds))
  else
    tree:add(field.field, m.tvb(at, 16), NSTime.new(seconds, nanoseconds))
  end
end

-- The names of the attributes that a bitmap asks for.
local function attribute_names(m, at)
  local low, high = u64_halves(m, at)
  local names = {}
  for _, each in ipairs(m.proc == GET_FSATTR and fs_attributes or file_attributes) do
    if has_bit(each.b < 32 and low or high, each.b % 32) then names[#names + 1] = each.f.n end
  end
  return table.concat(names, " ")
end

-- Shows one field of the structure at `base`. Kinds beside the numbers: bytes and struct (of `s` bytes, in place),
-- time, union (the fields of the arm that the number of `ds` bytes at `d` selects), lock_conflict and when_ok (fields
-- that exist with some statuses), and items of the heap.
function show(m, tree, field, base, scope, fixed_end)
  m.items = m.items + 1
  if m.items > MOST_ITEMS then
    m.failed = true
    tree:add_proto_expert_info(unknown, "more items than are shown of one message")
    return
  end
  local kind, at = field.k, base + field.o
  local size = SIZES[kind]
  if size then
    local item = add(m, tree, field.field, at, size)
    if size == 4 then m.values[field.n] = u32(m, at) end
    if field.n == "attr_request_bitmap" then item:append_text(" " .. attribute_names(m, at)) end
    if field.n == "offset" then
      m.values.offset = tostring(m.little and m.tvb(at, 8):le_uint64() or m.tvb(at, 8):uint64())
    end
  elseif kind == "bytes" then
    local item = add(m, tree, field.field, at, field.s)
    if field.replaced and has_bit(m.chain_flags, field.s == 64 and 3 or 4) then
      item:append_text(" (the current one of the chain is used instead)")
    end
  elseif kind == "time" then
    show_time(m, tree, field, at)
  elseif kind == "struct" then
    show_all(m, tree:add(m.tvb(at, field.s), field.n), field.f, at, scope, fixed_end)
  elseif kind == "union" then
    local value = field.ds == 2 and u16(m, base + field.d) or u32(m, base + field.d)
    show_all(m, tree, field.arm_of[value] or {}, base, scope, fixed_end)
  elseif kind == "lock_conflict" then
    if lock_conflicts[m.status] then show_all(m, tree, field.f, base, scope, fixed_end) end
  elseif kind == "when_ok" then
    if m.status == 0 then show_all(m, tree, field.f, base, scope, fixed_end) end
  else
    local item = item_at(m, tree, field, at, scope, fixed_end)
    if item then in_heap[kind](m, tree, field, item) end
  end
end

local function show_body(m, tree, what, fields, size)
  if not have(m, tree, HEADER, size, what) then return end
  if size > 0 then
    show_all(m, tree:add(m.tvb(HEADER, size), what), fields, HEADER, HEADER, HEADER + size)
  end
end

-- The data of an inline read or write. Padded data ends the message, at a multiple of 8.
local function show_data(m, tree, fixed, size)
  if m.failed or not size or size == 0 then return end
  local at = HEADER + fixed
  if (m.values.write_padded or 0) ~= 0 then at = m.size - align(size, 8) end
  if at < HEADER + fixed then return fail(m, tree, "inline data: " .. size .. " bytes") end
  if have(m, tree, at, size, "inline data") then tree:add(own.data, m.tvb(at, size)) end
end

-- Messages.

local function follow_chain(m, connection, call, frame)
  if has_bit(m.chain_flags, 1) and chains[connection] then
    call.member, call.first = chains[connection].member + 1, chains[connection].first
  elseif has_bit(m.chain_flags, 0) then
    call.member, call.first = 1, frame
  end
  chains[connection] = has_bit(m.chain_flags, 0) and call.member and call or nil
end

local function new_call(m, connection, key, pinfo)
  local call = {frame = pinfo.number, time = pinfo.rel_ts, proc = m.proc, claim = 0}
  if m.proc == OPEN and m.size >= HEADER + 4 then
    call.claim = u32(m, HEADER)
  elseif m.proc == FETCH_RESPONSE and m.size >= HEADER + procedures[FETCH_RESPONSE].args_size then
    for _, field in ipairs(procedures[FETCH_RESPONSE].args) do
      if field.n == "procedure" then call.result_of = u32(m, HEADER + field.o) end
    end
  end
  call.wants_attributes = has_bit(m.chain_flags, 8) or has_bit(m.chain_flags, 9)
  follow_chain(m, connection, call, pinfo.number)
  pending[key] = call
  return call
end

local function add_chain(tree, call)
  if not call or not call.member then return end
  tree:add(own.chain_member, call.member):set_generated()
  tree:add(own.chain_first, call.first):set_generated()
end

local function show_request(m, tree, call)
  local flags = add(m, tree, own.chain_flags, 10, 2)
  for _, flag in ipairs({"chain_forw", "chain_back", "chain_save", "chain_fh", "chain_stateid", "chain_attributes",
                            "chain_other"}) do
    add(m, flags, own[flag], 10, 2)
  end
  add_chain(tree, call)
  local procedure = procedures[m.proc]
  local name = procedure and procedure.name or "procedure " .. m.proc
  tree:add(own.proc, m.tvb(32, 4), name)
  add(m, tree, own.proc_number, 32, 4)
  if call and call.response then tree:add(own.response_in, call.response):set_generated() end
  if procedure then
    show_body(m, tree, "arguments", procedure.args, procedure.args_size)
    if m.proc == WRITE_INLINE or m.proc == APPEND_INLINE then
      show_data(m, tree, procedure.args_size, m.values.byte_count)
    end
  else
    tree:add_proto_expert_info(unknown, "unknown procedure " .. m.proc)
  end
  return name
end

local function show_result(m, tree, call)
  local procedure = procedures[call.result_of or call.proc]
  if not procedure or procedure.res_size == 0 then return end
  if m.status ~= 0 then
    local carries = procedure.carries[call.claim] or (m.proc ~= OPEN and procedure.carries[0]) or {}
    if not carries[m.status] or m.size == HEADER then return end
    m.all_zero = true
  end
  show_body(m, tree, "result", procedure.res, procedure.res_size)
  if m.proc == READ_INLINE then show_data(m, tree, procedure.res_size, m.values.bytes_read) end
end

-- Attributes after the result: docs/wire.md 9.8.
local function show_attributes_after(m, tree)
  local start = u32(m, 36)
  if m.failed or start == 0 or not have(m, tree, start, 16, "attributes after the result") then return end
  for _, each in ipairs({{"current", 0}, {"other", 8}}) do
    local offset = u32(m, start + each[2])
    if offset ~= 0 and not m.failed then
      show_attributes(m, tree, {n = each[1] .. " attributes after the request", of = file_attributes}, start + offset)
    end
  end
end

local function show_response(m, tree, call, pinfo)
  local conditions = add(m, tree, own.spec_cond, 10, 2)
  for _, condition in ipairs({"cond_lmoved", "cond_failover", "cond_promises", "cond_fenced", "cond_broken"}) do
    add(m, conditions, own[condition], 10, 2)
  end
  add_chain(tree, call)
  local status = add(m, tree, own.status, 28, 4)
  if m.status ~= 0 then
    status:add_proto_expert_info(failed, statuses[m.status] or "unknown status " .. m.status)
  end
  if not call then
    tree:add_proto_expert_info(unknown, "the capture does not have the request")
    return "response"
  end
  local name = procedures[call.proc] and procedures[call.proc].name or "procedure " .. call.proc
  tree:add(own.response_of, name):set_generated()
  tree:add(own.request_in, call.frame):set_generated()
  local elapsed = math.max(pinfo.rel_ts - call.time, 0)
  tree:add(own.time, NSTime.new(math.floor(elapsed), math.floor(elapsed % 1 * 1e9))):set_generated()
  show_result(m, tree, call)
  if call.wants_attributes then show_attributes_after(m, tree) end
  return name .. " reply"
end

local function short_status(status)
  local name = statuses[status] or tostring(status)
  return (name:gsub("^DAFS_STATUS_", ""):gsub("^DAFSERR_", ""))
end

-- What the list of packets shows of a message.
local function summary(m, name)
  local words = {name}
  if not m.is_request then words[#words + 1] = short_status(m.status) end
  if #m.names == 1 or #m.names == 2 and m.is_request then words[#words + 1] = table.concat(m.names, " -> ") end
  for _, field in ipairs({"offset", "byte_count", "bytes_read", "count"}) do
    if m.values[field] then words[#words + 1] = field .. "=" .. m.values[field] end
  end
  if m.failed then words[#words + 1] = "[malformed]" end
  return table.concat(words, " ")
end

-- Adds `text` to the messages of this frame. The fence keeps it when the layers below write the line for the next
-- message of the frame.
local function add_info(pinfo, text, joint)
  if pinfo.private.dafs then text = joint .. text end
  pinfo.private.dafs = "seen"
  pinfo.cols.protocol:set("DAFS")
  pinfo.cols.info:set(text)
  pinfo.cols.info:fence()
end

-- The byte order of a message, "little" or "big", and whether it is a request; nil if it is none.
local function order_of(tvb)
  if tvb:len() < 4 then return nil end
  for order, magic in pairs({big = tvb(0, 4):uint(), little = tvb(0, 4):le_uint()}) do
    if magic == REQUEST or magic == RESPONSE then return order, magic == REQUEST end
  end
  return nil
end

local function show_header(m, tree)
  add(m, tree, own.magic, 0, 4)
  add(m, tree, own.version, 4, 4)
  add(m, tree, m.is_request and own.desired_nreq or own.target_nreq, 8, 2)
  add(m, tree, own.stream_id, 12, 2)
  add(m, tree, own.seq_number, 14, 2)
  add(m, tree, own.analyzer, 16, 8)
  add(m, tree, own.checksum, 24, 4)
  if m.is_request then add(m, tree, own.cred, 28, 4) end
  local at = m.is_request and 36 or 32
  local length = add(m, tree, m.is_request and own.request_len or own.response_len, at, 4)
  if u32(m, at) ~= m.size then fail(m, length, string.format("length %.0f of %d bytes", u32(m, at), m.size)) end
end

-- One whole message. `connection` and `id` name its connection and the message.
local function show_message(tvb, pinfo, root, connection, id)
  local tree = root:add(dafs, tvb())
  local order, is_request = order_of(tvb)
  local m = {tvb = tvb, size = tvb:len(), little = order == "little", is_request = is_request, items = 0, values = {},
             names = {}, status = 0, chain_flags = 0}
  if not order or m.size < HEADER then
    fail(m, tree, order and "shorter than a header" or "unknown magic")
    return add_info(pinfo, "[malformed DAFS message]", ", ")
  end
  local key = table.concat({connection, u16(m, 12), u16(m, 14), tostring(tvb(16, 8):bytes())}, ":")
  local call, name
  if is_request then
    m.proc, m.chain_flags = u32(m, 32), u16(m, 10)
    if not pinfo.visited then calls[id] = new_call(m, connection, key, pinfo) end
    call = calls[id]
  else
    m.status = u32(m, 28)
    if not pinfo.visited and pending[key] then
      responses[id], pending[key] = pending[key], nil
      responses[id].response = pinfo.number
    end
    call = responses[id]
    m.proc = call and call.proc
  end
  show_header(m, tree)
  if is_request then
    name = show_request(m, tree, call)
  else
    name = show_response(m, tree, call, pinfo)
  end
  local text = summary(m, name)
  tree:append_text(": " .. text)
  add_info(pinfo, text, call and (call.member or 0) > 1 and " + " or ", ")
end

-- iWARP: a message is one Send of RDMAP, in one or more segments of DDP.

local tcp_stream = Field.new("tcp.stream")
local ddp_tagged = Field.new("iwarp_ddp.tagged_flag")
local ddp_message = Field.new("iwarp_ddp.msn")
local ddp_offset = Field.new("iwarp_ddp.mo")
local ddp_last = Field.new("iwarp_ddp.last_flag")

-- The value of a field in the innermost layer. A frame can contain several FPDUs.
local function latest(extractor)
  local all = {extractor()}
  return #all > 0 and all[#all].value or nil
end

-- Adds a segment. Returns the state of its message.
local function add_segment(id, tvb, at, is_last, frame)
  local message = partial[id] or {segments = {}, size = 0}
  partial[id] = message
  if message.message or message.segments[at] or at + tvb:len() > MOST_BYTES then return message end
  message.segments[at] = tvb:bytes()
  message.size = message.size + tvb:len()
  if is_last then message.total = at + tvb:len() end
  if message.total ~= message.size then return message end
  local whole, position = ByteArray.new(), 0
  while position < message.total do
    local segment = message.segments[position]
    if not segment then return message end
    whole:append(segment)
    position = position + segment:len()
  end
  message.message, message.segments, message.frame, message.at = whole, {}, frame, at
  return message
end

local function show_segment(tvb, pinfo, tree, connection, id, at, is_last)
  if not pinfo.visited then add_segment(id, tvb, at, is_last, pinfo.number) end
  local message = partial[id]
  local item = tree:add(dafs, tvb(), "DAFS segment")
  item:add(own.segment, tvb())
  if message and message.message and message.frame == pinfo.number and message.at == at then
    show_message(message.message:tvb("DAFS message"), pinfo, tree, connection, id)
  else
    add_info(pinfo, "segment of a message", ", ")
  end
end

local function in_iwarp(tvb, pinfo, tree)
  if latest(ddp_tagged) then return false end  -- the data of an RDMA write or read
  local stream, number, at = latest(tcp_stream), latest(ddp_message), latest(ddp_offset)
  if not stream or not number or not at or tvb:len() == 0 then return false end
  if not speaks[stream] then
    if at ~= 0 or not order_of(tvb) then return false end
    speaks[stream] = true
  end
  local connection = "tcp" .. stream
  local id = string.format("%s:%d:%d", connection, pinfo.src_port, number)
  if at == 0 and latest(ddp_last) then
    show_message(tvb, pinfo, tree, connection, id)
  else
    show_segment(tvb, pinfo, tree, connection, id, at, latest(ddp_last))
  end
  return true
end

-- InfiniBand and RoCE: a message is one Send of a reliable connection, in one or more packets.

local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_psn = Field.new("infiniband.bth.psn")
local bth_queue = Field.new("infiniband.bth.destqp")
local ONLY = {[4] = true, [5] = true, [0x17] = true}
local FIRST, MIDDLE, LAST = {[0] = true}, {[1] = true}, {[2] = true, [3] = true, [0x16] = true}

local function in_infiniband(tvb, pinfo, tree)
  local opcode, number, queue = latest(bth_opcode), latest(bth_psn), latest(bth_queue)
  if not opcode or not number or not queue or tvb:len() == 0 then return false end
  local source, target = tostring(pinfo.src), tostring(pinfo.dst)
  -- Both directions of a connection have different queue pairs. The analyzer tells connections apart.
  local connection = source < target and source .. target or target .. source
  if ONLY[opcode] and order_of(tvb) then
    show_message(tvb, pinfo, tree, connection, pinfo.number)
    return true
  end
  local id = table.concat({source, target, queue}, ":")
  local message = partial[id]
  if FIRST[opcode] and order_of(tvb) then
    if not pinfo.visited then partial[id] = {bytes = tvb:bytes(), next = (number + 1) % 2 ^ 24} end
  elseif (MIDDLE[opcode] or LAST[opcode]) and not pinfo.visited then
    if not message or not message.bytes or message.next ~= number or
        message.bytes:len() + tvb:len() > MOST_BYTES then
      return false
    end
    message.bytes:append(tvb:bytes())
    message.next = (number + 1) % 2 ^ 24
    partial[pinfo.number] = {message = LAST[opcode] and message.bytes}
    if LAST[opcode] then partial[id] = nil end
  elseif not partial[pinfo.number] then
    return false
  end
  local whole = partial[pinfo.number]
  tree:add(dafs, tvb(), "DAFS segment"):add(own.segment, tvb())
  if whole and whole.message then
    show_message(whole.message:tvb("DAFS message"), pinfo, tree, connection, pinfo.number)
  else
    add_info(pinfo, "segment of a message", ", ")
  end
  return true
end

-- Wireshark's own reassembly of Sends finds only the first message of a TCP segment (4.0 to 4.4). Without it every
-- segment of DDP reaches in_iwarp.
set_preference("iwarp_ddp_rdmap.reassemble_iwarp_rdma_send", false)

dafs:register_heuristic("iwarp_ddp_rdmap", in_iwarp)
dafs:register_heuristic("infiniband.payload", in_infiniband)
