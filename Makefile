# StateDB for SQLite.
#
#   make             build/statedb.so (.dylib on macOS), build/libstatedb.a, and ./statedb.so
#   make test        everything a change must pass (installs what it needs on Debian); and the same of
#                    the VARIANTS named, as in VARIANTS="asan tsan frozen fuzz clients"
#   make asan        the same with AddressSanitizer and UndefinedBehaviorSanitizer, and with what is for
#                    large tables done in small ones
#   make tsan        the C tests with ThreadSanitizer
#   make frozen      the C tests with published memory write-protected, a check at each commit, and
#                    without SIMD
#   make fuzz        each fuzz target for FUZZ_SECONDS (clang)
#   make clients     programs in Python, Node, Go and Tcl that share a store between threads; says which
#                    of them cannot be had here, and skips it
#   make check-all   test with all variants
#   make test-sqlite the SQL tests with the SQLite whose sqlite3.c and headers are in AMALGAMATION=DIR
#   make bench       the benchmarks
#   make bench-shared one of them, threads that share tables, and its plot, bench/shared.svg
#   make bench-peers StateDB in Go and badger's skiplist beside ours; needs Go
#   make demo        the guided tour, sql/tour.sql
#   make install     under PREFIX
#   make clean
#
# The plain build has no assertions in it, the variants have. STRICT=1 (or CI set) makes warnings
# errors. SQLITE_CFLAGS and SQLITE_LIBS name another SQLite.

MAKEFLAGS += --no-print-directory

BUILD = build
PREFIX = /usr/local
FUZZ_SECONDS = 30
VARIANTS =
SQLITE_CFLAGS =
SQLITE_LIBS = -lsqlite3
AMALGAMATION =

# Where the compiler can, the loadable extension is optimized as a whole, which makes it faster by 5 to 10 %. The
# objects have ordinary code too, for what is linked with -fno-lto; and the library has just that, for any
# compiler's linker to read.
WHOLE = -flto=auto -ffat-lto-objects
LTO := $(shell echo 'int main(void) { return 0; }' | $(CC) $(WHOLE) -Werror -x c - -o /dev/null 2>/dev/null && echo $(WHOLE))

CFLAGS = -O2 -g -DNDEBUG $(LTO)
override CFLAGS += -std=c11 -fPIC -fvisibility=hidden -pthread $(SANITIZE)
override CFLAGS += -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine)),)
override CFLAGS += -mpopcnt # in every x86-64 since 2008; nodes are searched with it
endif
ifneq ($(CI)$(STRICT),)
override CFLAGS += -Werror
endif

ifeq ($(shell uname -s),Darwin)
SO = dylib
SHARED = -dynamiclib
else
SO = so
SHARED = -shared -Wl,-z,defs
endif

CORE = $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/*.c))
EXT = $(patsubst %.c,$(BUILD)/%.o,$(wildcard ext/*.c))
STATIC = $(patsubst %.c,$(BUILD)/static/%.o,$(wildcard ext/*.c))
TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/t_*.c))
FUZZ = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz_*.c))
BENCH = $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
PEERS = $(addprefix $(BUILD)/bench/bench_,statedb radix map lpm skl)
LOADABLE = $(BUILD)/statedb.$(SO)
LIB = $(BUILD)/libstatedb.a

# Programs that have SQLite and ext/ linked in.
WITH_SQL = $(filter %/bench_sql %/bench_lpm_sql %/bench_shared %/fuzz_schema_sql,$(TESTS) $(FUZZ) $(BENCH)) \
           $(filter $(BUILD)/tests/t_sql_% $(BUILD)/tests/t_schema_% $(BUILD)/tests/fuzz_sql_%,$(TESTS) $(FUZZ))

all: $(LOADABLE) $(LIB) $(if $(filter build,$(BUILD)),statedb.$(SO))

statedb.$(SO): $(LOADABLE)
	ln -sf $< $@

$(LOADABLE): $(EXT) $(CORE)
	$(CC) $(CFLAGS) $(LDFLAGS) $(SHARED) -o $@ $^

$(LIB): $(CORE)
	rm -f $@
	$(AR) rcs $@ $^
	$(if $(LTO),objcopy -R '.gnu.lto_*' -R '.gnu.debuglto_*' $@)

$(BUILD)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/ext/%.o: ext/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) $(SQLITE_CFLAGS) -Icore -MMD -MP -c -o $@ $<

$(BUILD)/static/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) $(SQLITE_CFLAGS) -DSQLITE_CORE -Icore -MMD -MP -c -o $@ $<

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fno-lto $(CPPFLAGS) $(SQLITE_CFLAGS) -DSQLITE_CORE -Icore -Iext -MMD -MP -c -o $@ $<

$(BUILD)/bench/%.o: bench/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) $(SQLITE_CFLAGS) -DSQLITE_CORE -Icore -Iext -MMD -MP -c -o $@ $<

$(WITH_SQL): $(STATIC)
$(filter $(BENCH),$(WITH_SQL)): $(CORE) # they measure what the loadable extension is
$(filter-out $(WITH_SQL),$(BENCH)) $(TESTS) $(FUZZ): LDFLAGS += -fno-lto
$(WITH_SQL): LIBS += $(SQLITE_LIBS)
$(TESTS): LIBS += -lcmocka
$(FUZZ): LIBS += -fsanitize=fuzzer
$(BUILD)/bench/bench_core $(BUILD)/bench/bench_reader: LIBS += -llmdb
comma = ,
$(PEERS): LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=sdb_%,malloc zalloc realloc arena_node arena_alloc)

$(TESTS) $(FUZZ) $(BENCH): %: %.o $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS)

# A variant is this Makefile with another BUILD; tests/run tests what it finds in each directory.
ASAN = BUILD=build/asan CFLAGS="-O1 -g -fno-omit-frame-pointer -DSDB_EAGER" \
       SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
TSAN = BUILD=build/tsan CFLAGS="-O1 -g" SANITIZE=-fsanitize=thread
FROZEN = BUILD=build/frozen CFLAGS="-O1 -g -DSDB_FREEZE -DSDB_SCALAR"
FUZZING = BUILD=build/fuzz CC=clang CFLAGS="-O1 -g" \
          SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"

build-test: all $(TESTS)
build-variant: $(LOADABLE) $(TESTS)
build-tests: $(TESTS)
build-targets: $(FUZZ)
build-bench: $(BENCH)
build-peers: $(PEERS)
build-asan:
	@$(MAKE) $(ASAN) build-variant
build-tsan:
	@$(MAKE) $(TSAN) build-tests
build-frozen:
	@$(MAKE) $(FROZEN) build-tests
build-fuzz:
	@$(MAKE) $(FUZZING) build-targets

# What the programs in tests/clients need from npm and the Go proxy. Where that cannot be had, tests/run
# skips the program; build/clients/*.log has the reason.
build-clients: all build-client-node build-client-go
build-client-node:
	@mkdir -p build/clients
	@[ -e build/clients/node_modules/better-sqlite3/build/Release/better_sqlite3.node ] || \
	    npm install --prefix build/clients --no-audit --no-fund better-sqlite3@12 >build/clients/npm.log 2>&1 || true
build-client-go:
	@mkdir -p build/clients
	@cd tests/clients && if go mod download >../../build/clients/go.log 2>&1; then \
	    go build -buildvcs=false -o ../../build/clients/fleet .; fi

# The SQLite of an amalgamation, with what Debian's Tcl asks of one, and the programs that have it linked in.
SQLITE_VERSION = $(shell sed -n 's/^.define SQLITE_VERSION *"\(.*\)"/\1/p' "$(AMALGAMATION)/sqlite3.h")
OTHER = build/sqlite-$(SQLITE_VERSION)
$(BUILD)/libsqlite3.so.0: $(AMALGAMATION)/sqlite3.c
	@mkdir -p $(@D)
	$(CC) -O2 -w -fPIC -shared -Wl,-soname,$(@F) -DSQLITE_USE_URI -DSQLITE_ENABLE_PREUPDATE_HOOK \
	    -DSQLITE_ENABLE_UNLOCK_NOTIFY -o $@ $< -pthread -ldl -lm
build-sqlite: $(LOADABLE) $(filter $(WITH_SQL),$(TESTS))

test check:
	@tests/setup $(filter fuzz clients,$(VARIANTS))
	@$(MAKE) build-test $(VARIANTS:%=build-%)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run build $(VARIANTS:%=build/%)

check-all:
	@$(MAKE) test VARIANTS="asan tsan frozen fuzz clients"

asan tsan frozen fuzz clients:
	@tests/setup $(filter fuzz clients,$@)
	@$(MAKE) build-$@
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run build/$@

test-sqlite:
	@[ -e "$(AMALGAMATION)/sqlite3.c" ] || { echo "make test-sqlite AMALGAMATION=DIR: no sqlite3.c in '$(AMALGAMATION)'"; exit 1; }
	@tests/setup
	@$(MAKE) all
	@$(MAKE) BUILD=$(OTHER) $(OTHER)/libsqlite3.so.0
	@$(MAKE) BUILD=$(OTHER) SQLITE_CFLAGS="-I$(AMALGAMATION)" \
	    SQLITE_LIBS="$(OTHER)/libsqlite3.so.0 -Wl,-rpath,$(abspath $(OTHER))" build-sqlite
	@tests/run $(OTHER)

bench:
	@tests/setup bench
	@$(MAKE) build-bench
	@for b in $(filter-out $(PEERS),$(BENCH)); do $$b || exit 1; done

bench-shared:
	@tests/setup bench gnuplot
	@$(MAKE) $(BUILD)/bench/bench_shared
	@$(BUILD)/bench/bench_shared 9 $(BUILD)/bench/shared.dat
	@gnuplot -e "data='$(BUILD)/bench/shared.dat'" bench/shared.gp >bench/shared.svg

bench-peers:
	@tests/setup
	@$(MAKE) build-peers
	@$(BUILD)/bench/bench_lpm prefixes >$(BUILD)/bench/prefixes
	@cd bench/peers && go build -o $(abspath $(BUILD))/bench/peers .
	@$(BUILD)/bench/peers -prefixes $(BUILD)/bench/prefixes $(PEERS)

demo:
	@tests/setup demo
	@$(MAKE) -s all
	@sql/demo

install: $(LOADABLE) $(LIB)
	install -d $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include
	install -m 755 $(LOADABLE) $(DESTDIR)$(PREFIX)/lib
	install -m 644 $(LIB) $(DESTDIR)$(PREFIX)/lib
	install -m 644 core/statedb.h $(DESTDIR)$(PREFIX)/include

clean:
	rm -rf build statedb.$(SO)

-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)

.PHONY: all test check asan tsan frozen fuzz clients check-all test-sqlite bench bench-shared bench-peers demo install clean \
        build-test build-variant build-tests build-targets build-bench build-peers build-asan build-tsan build-frozen build-fuzz \
        build-sqlite build-clients build-client-node build-client-go
.SECONDARY:
