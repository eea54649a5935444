# fleet.tcl - a store shared by the threads of a Tcl program.
#
#     tclsh fleet.tcl STATEDB    prints fleet.out, as do the other programs here

# What each thread has: a connection, and what it does with it. There is no timeout: whoever had to
# wait would fail at once.
set init {
    package require Thread
    package require sqlite3
    set hosts 10
    set moves 2000

    proc connect {name statedb} {
        sqlite3 $name :memory:
        $name enable_load_extension 1
        $name eval {SELECT load_extension($statedb)}
        $name enable_load_extension 0
    }

    proc move {db source target} {
        $db transaction {
            $db eval {UPDATE host SET guests = guests - 1 WHERE id = $source}
            $db eval {UPDATE host SET guests = guests + 1 WHERE id = $target}
            $db eval {UPDATE moved SET n = n + 1}
        }
    }

    proc write {db} {
        try {
            for {set i 0} {$i < $::moves} {incr i} {
                move $db [expr {$i % $::hosts + 1}] [expr {$i * 7 % $::hosts + 1}]
            }
        } finally {
            tsv::set fleet done 1
        }
        return
    }

    # The sums that were seen, each once.
    proc read_all {db} {
        while {![tsv::get fleet done]} {
            dict set sums [$db onecolumn {SELECT sum(guests) FROM host}] 1
        }
        dict keys $sums
    }
}

eval $init
set statedb [lindex $argv 0]
connect db $statedb
db eval {
    CREATE VIRTUAL TABLE temp.host USING statedb(
        id INTEGER PRIMARY KEY, net TEXT NOT NULL, guests INTEGER NOT NULL,
        INDEX by_net(net) USING lpm, store='fleet');
    CREATE VIRTUAL TABLE temp.moved USING statedb(n INTEGER NOT NULL, store='fleet');
    INSERT INTO moved VALUES (0);
}
for {set i 1} {$i <= $hosts} {incr i} {
    set net 10.$i.0.0/16
    db eval {INSERT INTO host VALUES ($i, $net, 100)}
}

# Another connection joins the tables, and is not in the way of the first, nor that of this one.
connect other $statedb
puts "tables joined: [other onecolumn {SELECT statedb_attach('fleet')}]"
db eval {BEGIN; UPDATE host SET guests = 0 WHERE id = 1}
puts "seen while the other writes: [other onecolumn {SELECT guests FROM host WHERE id = 1}]"
db eval {ROLLBACK}

# One thread moves guests from host to host; two see what is the same before and after each move.
tsv::set fleet done 0
foreach work {read_all read_all write} {
    set thread [thread::create]
    thread::send $thread $init
    thread::send $thread [list connect db $statedb]
    thread::send $thread {db eval {SELECT statedb_attach('fleet')}}
    thread::send -async $thread [list $work db] result($thread)
}
while {[array size result] < 3} {
    vwait result
}
puts "sums seen: [lsort -unique [concat {*}[lmap {thread sums} [array get result] {set sums}]]]"
puts "moves seen: [db onecolumn {SELECT n FROM moved}]"
puts "net of 10.2.3.4: [db onecolumn {SELECT net FROM host WHERE statedb_lpm(net, '10.2.3.4')}]"
