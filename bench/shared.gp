# shared.gp - the plot of bench_shared: gnuplot -e "data='FILE'" bench/shared.gp >bench/shared.svg
set terminal svg size 960,330 font "sans-serif,12" background "#ffffff"
set multiplot layout 1,3 margins 0.05,0.98,0.2,0.8 spacing 0.07
set border 3 lc "#666666"
set tics nomirror out
set grid ytics lc "#dddddd" lw 1
set style data histograms
set style histogram clustered gap 1
set style fill solid
set boxwidth 0.9
set key top right samplen 1 spacing 1.1
set xtics rotate by -20 font ",11"
set yrange [0:*]
set offsets 0,0,graph 0.4,0
set title "readers: thousand reads\nin a second of CPU time"
plot data index 0 using 2:xtic(1) title "alone" lc "#b8c4d0", \
     "" index 0 using 3 title "beside a writer elsewhere" lc "#7f9cc0", \
     "" index 0 using 4 title "while another writes" lc "#1f5fa8"
set title "writers: thousand commits\nin a second of CPU time"
plot data index 0 using 5:xtic(1) title "one" lc "#b8c4d0", \
     "" index 0 using 6 title "two, of two databases" lc "#7f9cc0", \
     "" index 0 using 7 title "two, of two tables" lc "#1f5fa8"
set title "a read while another writes:\nmicroseconds, percentiles"
set style data linespoints
set offsets
set logscale xy
set yrange [1:10000000]
set format y "10^{%T}"
set xtics norotate ("50" 2, "90" 10, "99" 100, "99.9" 1000)
set key top left Left reverse
plot data index 1 using 1:3 title "statedb, a store" lc "#1f5fa8" lw 3 pt 7 ps 0.4, \
     "" index 2 using 1:3 title "memdb VFS" lc "#c0392b" lw 1.5 pt 7 ps 0.3, \
     "" index 3 using 1:3 title "shared cache" lc "#e08e0b" lw 1.5 pt 7 ps 0.3, \
     "" index 4 using 1:3 title "WAL, /dev/shm" lc "#3a8f4d" lw 1.5 pt 7 ps 0.3
