package main

import (
	"log"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A row is one benchmark. make prepares what its work needs, untimed, and returns the work: n
// iterations of it, each handling `per` objects. Work whose cost depends on how much of it there
// is has a fixed number of iterations; otherwise they fill the time of a turn.
type row struct {
	name  string
	per   int
	make  func() func(n int)
	fixed int
}

// figures are of one object.
type figures struct {
	cpu, wall, bytes float64
}

// clock is stopped and started by work that has parts which are not to be counted.
var clock struct {
	cpu, wall           time.Duration
	cpuStart, wallStart time.Duration
	bytes, bytesStart   uint64
	arena               int64   // bytes taken from an arena that Go does not see
	kept                float64 // an object: work that sets it has it told in place of bytes allocated
	handled             int     // objects, where only the work knows how many
}

func read(id int32) time.Duration {
	var t unix.Timespec
	check(unix.ClockGettime(id, &t))
	return time.Duration(t.Nano())
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func clockStart() {
	clock.bytesStart = allocated()
	clock.wallStart = read(unix.CLOCK_MONOTONIC)
	clock.cpuStart = read(unix.CLOCK_PROCESS_CPUTIME_ID)
}

func clockStop() {
	clock.cpu += read(unix.CLOCK_PROCESS_CPUTIME_ID) - clock.cpuStart
	clock.wall += read(unix.CLOCK_MONOTONIC) - clock.wallStart
	clock.bytes += allocated() - clock.bytesStart
}

func measure(run func(n int), n, per int) figures {
	runtime.GC()
	clock.cpu, clock.wall, clock.bytes, clock.arena, clock.kept, clock.handled = 0, 0, 0, 0, 0, 0
	clockStart()
	run(n)
	clockStop()
	objects := float64(n) * float64(per)
	if clock.handled > 0 {
		objects = float64(clock.handled)
	}
	f := figures{
		float64(clock.cpu) / objects,
		float64(clock.wall) / objects,
		(float64(clock.bytes) + float64(clock.arena)) / objects,
	}
	if clock.kept > 0 {
		f.bytes = clock.kept
	}
	return f
}

// calibrate finds how many iterations take about the time of a turn.
func calibrate(run func(n int), span time.Duration) int {
	for n := 1; ; {
		measure(run, n, 1)
		if clock.wall >= span/2 {
			return max(1, int(float64(n)*float64(span)/float64(clock.wall)))
		}
		n *= max(2, min(100, int(span/2/max(clock.wall, 1))))
	}
}

// must stops the program when the work did not do what it is measured for.
func must(ok bool) {
	if !ok {
		log.Panic("wrong result")
	}
}
