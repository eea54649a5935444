// Command peers measures StateDB in Go, and badger's skiplist, beside our core. Each row does the
// same work in both: theirs here, ours in that of the programs named on the command line
// (../bench_*.c) which has the row; it is given the row's name on its
// standard input and answers with its figures on its standard output.
//
//	peers [-rounds N] [-time DURATION] [-rows PATTERN] [-prefixes FILE] PROGRAM...
//
// The two take turns within each row, so that what else happens on the machine meets both. The
// figures are medians: nanoseconds an object by the CPU clock of the process and by the wall clock
// (Go collects garbage on other cores meanwhile; the CPU clock counts it), and bytes allocated an
// object. The ratios are ours / theirs.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"
)

// ours is one of the other programs.
type ours struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(path string, span time.Duration) ours {
	cmd := exec.Command(path, "-", fmt.Sprint(span.Nanoseconds()))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	return ours{cmd, in, bufio.NewScanner(out)}
}

// measure returns false for a row that the program does not have.
func (o ours) measure(name string) (f figures, ok bool) {
	_, err := fmt.Fprintln(o.in, name)
	check(err)
	if !o.out.Scan() {
		log.Fatalf("%s: no answer", name)
	}
	if o.out.Text() == name+" -" {
		return f, false
	}
	var echo string
	_, err = fmt.Sscan(o.out.Text(), &echo, &f.cpu, &f.wall, &f.bytes)
	check(err)
	if echo != name {
		log.Fatalf("%s: answered %q", name, o.out.Text())
	}
	return f, true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// medians takes the median of each figure by itself.
func medians(all []figures) figures {
	of := func(figure func(figures) float64) float64 {
		v := make([]float64, len(all))
		for i, f := range all {
			v[i] = figure(f)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return figures{
		of(func(f figures) float64 { return f.cpu }),
		of(func(f figures) float64 { return f.wall }),
		of(func(f figures) float64 { return f.bytes }),
	}
}

func compare(r row, programs []ours, rounds int, span time.Duration) {
	run := r.make()
	n := r.fixed
	if n == 0 {
		n = calibrate(run, span)
	}
	var theirs, mine []figures
	for range rounds {
		theirs = append(theirs, measure(run, n, r.per))
		for _, p := range programs {
			if f, ok := p.measure(r.name); ok {
				mine = append(mine, f)
			}
		}
	}
	t := medians(theirs)
	fmt.Printf("%-34s %9.1f %9.1f %7.0f", r.name, t.cpu, t.wall, t.bytes)
	if mine == nil {
		fmt.Println("   (the programs have no such row)")
		return
	}
	m := medians(mine)
	fmt.Printf(" %9.1f %9.1f %7.0f %7.2f %7.2f", m.cpu, m.wall, m.bytes, m.cpu/t.cpu, m.wall/t.wall)
	if t.bytes >= 0.5 {
		fmt.Printf(" %7.2f", m.bytes/t.bytes)
	}
	fmt.Println()
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 5, "how many turns each takes at a row")
	span := flag.Duration("time", 40*time.Millisecond, "how long a turn is, about")
	rows := flag.String("rows", "", "only rows whose name matches this regular expression")
	flag.Parse()
	pattern, err := regexp.Compile(*rows)
	check(err)
	var programs []ours
	for _, path := range flag.Args() {
		programs = append(programs, start(path, *span))
	}
	fmt.Printf("%-34s %27s %27s %23s\n", "", "theirs", "ours", "ours/theirs")
	fmt.Printf("%-34s %9s %9s %7s %9s %9s %7s %7s %7s %7s\n", "an object", "cpu ns", "wall ns", "bytes",
		"cpu ns", "wall ns", "bytes", "cpu", "wall", "bytes")
	for _, all := range [][]row{tableRows, partRows, mapRows, lpmRows, watchRows, sklRows} {
		for _, r := range all {
			if pattern.MatchString(r.name) {
				compare(r, programs, *rounds, *span)
			}
		}
	}
	for _, p := range programs {
		check(p.in.Close())
		check(p.cmd.Wait())
	}
}
