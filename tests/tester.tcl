# tester.tcl - what the .test files share: connections with the extension loaded, tests that compare
# with expected values, and tests that compare a statedb table with an ordinary one.
#
# STATEDB in the environment names the extension (build/statedb.so when unset). STATEDB=none runs
# only the ordinary side of do_both_test, to prove the scripts themselves.

package require Tcl 8.6
package require tcltest 2.5
package require sqlite3
namespace import ::tcltest::test ::tcltest::testConstraint

set top [file dirname [file dirname [file normalize [info script]]]]
set statedb $top/build/statedb[info sharedlibextension]
if {[info exists env(STATEDB)]} {
    set statedb $env(STATEDB)
}
testConstraint statedb [expr {$statedb ne "none"}]
tcltest::configure -verbose error {*}$argv

# Whether this is that SQLite or a newer one.
proc sqlite_since {version} {
    expr {[package vcompare [sqlite3 -version] $version] >= 0}
}

# Open connection `name`, in the encoding that the variable says. NULL reads as "NULL".
set encoding UTF-8
proc open_db {name {file :memory:}} {
    catch {$name close}
    sqlite3 $name $file
    $name nullvalue NULL
    $name eval "PRAGMA encoding = '$::encoding'" ;# loading the extension settles it
    if {[testConstraint statedb]} {
        $name enable_load_extension 1
        $name eval {SELECT load_extension($::statedb)}
    }
}

# A fresh database in connection `db`.
proc reset_db {} {
    open_db db
}

proc finish_test {} {
    catch {db close}
    tcltest::cleanupTests
}

proc in_transaction {db} {
    if {[catch {$db eval BEGIN}]} {
        return 1
    }
    $db eval COMMIT
    return 0
}

# Every statedb table of the connection must be in order. Between transactions only: inside one the
# command would enrol tables that the script has not touched.
proc integrity_check {db} {
    if {[in_transaction $db] || [$db onecolumn {PRAGMA query_only}]} {
        return
    }
    set find {SELECT name FROM $schema.sqlite_schema WHERE sql LIKE '%USING statedb(%'}
    foreach schema {main temp} {
        foreach name [$db eval [string map [list {$schema} $schema] $find]] {
            set quoted [string cat \" [string map {\" \"\"} $name] \"]
            $db eval "INSERT INTO $schema.$quoted\($quoted) VALUES('integrity-check')"
        }
    }
}

proc execsql {sql {db db}} {
    set result [$db eval $sql]
    integrity_check $db
    return $result
}

# 0 and the result, or 1 and the error's text.
proc catchsql {sql {db db}} {
    set result [list [catch {$db eval $sql} text] $text]
    integrity_check $db
    return $result
}

proc do_test {name script expected} {
    uplevel 1 [list test $name "" -constraints statedb -body $script -result $expected]
}

proc do_execsql_test {name sql {expected {}}} {
    uplevel 1 [list do_test $name [list execsql $sql] [list {*}$expected]]
}

proc do_catchsql_test {name sql expected} {
    uplevel 1 [list do_test $name [list catchsql $sql] [list {*}$expected]]
}

# The query plan's lines, without their tree.
proc eqp {sql} {
    set lines {}
    db eval "EXPLAIN QUERY PLAN $sql" row {
        lappend lines $row(detail)
    }
    return $lines
}

proc do_eqp_test {name sql expected} {
    uplevel 1 [list do_test $name [list eqp $sql] [list {*}$expected]]
}

# A table twice: as a list of two scripts, the ordinary definition and the statedb one. Each of
# `indexes` reads "[UNIQUE] INDEX name(columns)".
proc both_table {name columns args} {
    set native "CREATE TABLE $name\($columns);"
    set statedb "CREATE VIRTUAL TABLE $name USING statedb($columns"
    foreach index $args {
        regexp {^(.*INDEX\s+\w+)\s*(\(.*)$} $index -> head tail
        append native "CREATE $head ON $name$tail;"
        append statedb ", $index"
    }
    return [list $native "$statedb);"]
}

# A value as Tcl got it from SQLite, with its type: N, I:1, R:1.0, T:text, B:bytes.
proc typed {value} {
    set kind [lindex [tcl::unsupported::representation $value] 3]
    switch -- $kind {
        int - wideInt - bignum { return I:$value }
        double { return R:$value }
        bytearray { binary scan $value H* hex; return B:$hex }
        default { return [expr {$value eq "\x01" ? "N" : "T:$value"}] }
    }
}

# Split a script into statements, as the shell does.
proc statements {script} {
    set all {}
    set sql ""
    foreach part [split $script ";"] {
        append sql $part ";"
        if {[native complete $sql]} {
            if {[string trim $sql " \t\n;"] ne ""} {
                lappend all [string trim $sql]
            }
            set sql ""
        }
    }
    return $all
}

# Run one statement and tell all that can be seen of it: its rows with their types or its error,
# and for a change also changes() and last_insert_rowid().
proc observe {db sql} {
    if {[catch {$db eval $sql} rows]} {
        set seen [list error [$db errorcode] $rows]
    } else {
        set seen [lmap value $rows {typed $value}]
    }
    if {[regexp -nocase {^\s*(INSERT|REPLACE|UPDATE|DELETE)} $sql]} {
        lappend seen changes [$db changes] rowid [$db last_insert_rowid]
    }
    return $seen
}

# Run the script on ordinary tables and on statedb tables, and demand that no statement shows a
# difference, nor the tables at the end. `tables` is a list of what both_table returns.
proc do_both_test {name tables script} {
    uplevel 1 [list test $name "" -body [list both_differences $tables $script] -result ""]
}

# From the first value that differs, a few.
proc difference {sql expected got} {
    set i 0
    while {[lindex $expected $i] eq [lindex $got $i] && $i < [llength $got]} {
        incr i
    }
    set end [expr {$i + 9}]
    return "\n$sql\n  from value $i\n  native:  [lrange $expected $i $end]\n  statedb: [lrange $got $i $end]"
}

proc both_differences {tables script} {
    open_db native
    open_db ours
    native eval {PRAGMA automatic_index = OFF} ;# 3.40.1 uses them with the wrong collation
    native nullvalue "\x01"
    ours nullvalue "\x01"
    foreach table $tables {
        native eval [lindex $table 0]
        ours eval [lindex $table [testConstraint statedb]]
        regexp {TABLE (\w+)} [lindex $table 0] -> name
        append script ";\nSELECT rowid, * FROM $name ORDER BY rowid"
    }
    set differences ""
    foreach sql [statements $script] {
        set expected [observe native $sql]
        set got [observe ours $sql]
        if {$got ne $expected} {
            append differences [difference $sql $expected $got]
        }
        if {![regexp -nocase {^SELECT} $sql] && [catch {integrity_check ours} text]} {
            append differences "\n$sql\n  integrity-check: $text"
        }
    }
    native close
    ours close
    return $differences
}
