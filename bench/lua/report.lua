-- What every script shares: one line of JSON at the end, for bench/wrk.py to read.

local threads = {}

-- Counters of a thread: answers that were as wanted, answers that were not, and one of the latter in words.
good, bad, complaint = 0, 0, ""

function setup(thread)
  table.insert(threads, thread)
end

function complain(status, body)
  bad = bad + 1
  complaint = "status " .. status .. ": " .. string.sub(string.gsub(body or "", "[^%w%s_.,:-]", " "), 1, 200)
end

function done(summary, latency, requests)
  local wanted, unwanted, words = 0, 0, ""
  for _, thread in ipairs(threads) do
    wanted, unwanted = wanted + thread:get("good"), unwanted + thread:get("bad")
    if thread:get("complaint") ~= "" then words = thread:get("complaint") end
  end
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p95_ms": %.3f, "p99_ms": %.3f, "good": %d, "bad": %d,' ..
    ' "status": %d, "connect": %d, "read": %d, "write": %d, "timeout": %d, "complaint": "%s"}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(95) / 1e3,
    latency:percentile(99) / 1e3,
    wanted, unwanted, errors.status, errors.connect, errors.read, errors.write, errors.timeout,
    string.gsub(words, "%s+", " ")))
end
