package main

import (
	"context"
	"encoding/binary"
	"math/rand"
	"runtime"
	"sync"

	"github.com/cilium/statedb"
	"github.com/dgraph-io/badger/v4/skl"
	"github.com/dgraph-io/badger/v4/y"
)

// watchSet waits for one closed channel among open ones.
func watchSet(channels int) func() func(int) {
	return func() func(int) {
		set := statedb.NewWatchSet()
		for range channels - 1 {
			set.Add(make(chan struct{}))
		}
		closed := make(chan struct{})
		close(closed)
		return func(n int) {
			for range n {
				set.Add(closed)
				fired, err := set.Wait(context.Background(), 0)
				must(err == nil && len(fired) == 1)
			}
		}
	}
}

var watchRows = []row{
	{name: "WatchSet_4", per: 1, make: watchSet(4)},
	{name: "WatchSet_16", per: 1, make: watchSet(16)},
	{name: "WatchSet_128", per: 1, make: watchSet(128)},
	{name: "WatchSet_1024", per: 1, make: watchSet(1024)},
}

func randomKey(rng *rand.Rand) []byte {
	key := make([]byte, 8)
	binary.LittleEndian.PutUint32(key, rng.Uint32())
	binary.LittleEndian.PutUint32(key[4:], rng.Uint32())
	return y.KeyWithTs(key, 0)
}

// readWrite does n operations on an empty list, on all cores, of which `tenths` in ten read a random
// key and the others put one.
func readWrite(tenths int) func() func(int) {
	return func() func(int) {
		value := []byte("00123")
		work := func(list *skl.Skiplist, rng *rand.Rand, n int) {
			for range n {
				if rng.Float32() < float32(tenths)/10 {
					list.Get(randomKey(rng))
				} else {
					list.Put(randomKey(rng), y.ValueStruct{Value: value})
				}
			}
		}
		return func(n int) {
			clockStop()
			list := skl.NewSkiplist(int64((n + 1) * skl.MaxNodeSize))
			arena := list.MemSize()
			clockStart()
			var all sync.WaitGroup
			threads := runtime.GOMAXPROCS(0)
			for i := range threads {
				share := n / threads
				if i == 0 {
					share += n % threads
				}
				all.Go(func() { work(list, rand.New(rand.NewSource(int64(i+1))), share) })
			}
			all.Wait()
			clock.arena += list.MemSize() - arena
			list.DecrRef()
		}
	}
}

const manyPuts = 300000

// Rows named _txn are the same here; the other side publishes their puts a hundred at a time, those of
// the others one by one.
var sklRows = []row{
	{name: "skl_ReadWrite_frac_0", per: 1, make: readWrite(0), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_1", per: 1, make: readWrite(1), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_2", per: 1, make: readWrite(2), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_3", per: 1, make: readWrite(3), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_4", per: 1, make: readWrite(4), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_5", per: 1, make: readWrite(5), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_6", per: 1, make: readWrite(6), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_7", per: 1, make: readWrite(7), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_8", per: 1, make: readWrite(8), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_9", per: 1, make: readWrite(9), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_10", per: 1, make: readWrite(10), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_0_txn", per: 1, make: readWrite(0), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_5_txn", per: 1, make: readWrite(5), fixed: manyPuts},
	{name: "skl_ReadWrite_frac_9_txn", per: 1, make: readWrite(9), fixed: manyPuts},
}
