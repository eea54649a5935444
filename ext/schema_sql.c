/* schema_sql.c - the parser of the arguments of CREATE VIRTUAL TABLE ... USING statedb(...).
**
** SQLite cuts the arguments at their top-level commas and drops empty ones and the comments around
** them. Joined by ", " they are the body of a CREATE TABLE, parsed by SQLite's own rules:
**
**     body       = item { "," item }
**     item       = column | constraint { constraint } | option
**     column     = name type { CONSTRAINT name | NOT NULL | UNIQUE | DEFAULT ... | CHECK ... }
**     constraint = CONSTRAINT name | PRIMARY KEY parts | UNIQUE parts | CHECK "(" expression ")"
**                | [UNIQUE] INDEX name parts [USING radix]
**     option     = name "=" value
**
** parts: index_sql.h. */
#include "index_sql.h"

#include <sqlite3ext.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { HIDDEN_COLUMNS = 3 };

static const char *const constraint_words[] = {"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK",
                                               "FOREIGN",    "INDEX",   NULL};

static const char *const literal_words[] = {"NULL", "CURRENT_DATE", "CURRENT_TIME",
                                            "CURRENT_TIMESTAMP", NULL};

/* ON CONFLICT ABORT and REPLACE, or nothing: 0. SQLite decides by the statement alone what it does
** about a row that xUpdate does not take, so that the others cannot be done. is_used: a NULL and a CHECK
** may have the clause too, of no effect in SQLite. */
static uint8_t conflict_parse(parser *p, bool is_used)
{
    static const char *const others[] = {"ROLLBACK", "FAIL", "IGNORE", NULL};
    sql_token *t = &p->token;

    if (!parser_accept_word(p, "ON"))
        return 0;
    parser_expect_word(p, "CONFLICT");
    if (parser_accept_word(p, "REPLACE"))
        return SQLITE_REPLACE;
    if (sql_token_in(t, others) && is_used)
        parser_error(p,
                     "ON CONFLICT %.*s cannot be done in a virtual table: what SQLite then does and "
                     "counts is up to the statement; write INSERT OR %.*s",
                     t->length, t->text, t->length, t->text);
    else if (sql_token_in(t, others))
        parser_next(p);
    else
        parser_expect_word(p, "ABORT");
    return SQLITE_ABORT;
}

/* ---------------------------------------------------------------- indexes */

/* The index becomes the table's, or is freed after an error. */
static void index_insert_take(parser *p, index_sql *index, int at)
{
    table_sql *table = p->table;

    if (!p->rc)
        parser_check_name(p, index->name);
    if (table->n_indexes == SDB_MAX_INDEXES - 1)
        parser_error(p, "too many indexes: at most %d, those of UNIQUE and PRIMARY KEY included",
                     SDB_MAX_INDEXES - 1);
    if (!p->rc)
        table->indexes = parser_grow(p, table->indexes, table->n_indexes, sizeof *index);
    if (p->rc) {
        index_fini(index);
        return;
    }
    memmove(table->indexes + at + 1, table->indexes + at,
            (size_t)(table->n_indexes++ - at) * sizeof *index);
    table->indexes[at] = *index;
}

/* Two constraints on the same columns with the same collations share an index; the direction does
** not count. */
static index_sql *constraint_find(const parser *p, const index_sql *index)
{
    for (int i = 0; i < p->n_constraints; i++) {
        index_sql *other = &p->table->indexes[i];
        int part = 0;
        while (part < index->n_parts && index->n_parts == other->n_parts &&
               index->parts[part].column == other->parts[part].column &&
               index->parts[part].collation == other->parts[part].collation)
            part++;
        if (part == index->n_parts)
            return other;
    }
    return NULL;
}

/* Add what a PRIMARY KEY or UNIQUE constraint makes. The index is taken over. */
static void constraint_add_take(parser *p, index_sql *index, bool can_be_rowid)
{
    table_sql *table = p->table;
    index_sql *same;

    if (index->is_primary && p->has_primary)
        parser_error(p, "table \"%s\" has more than one primary key", table->name);
    if (p->rc)
        goto done;
    p->has_primary |= index->is_primary;
    if (index->is_primary && can_be_rowid && index->n_parts == 1 &&
        sqlite3_stricmp(table->columns[index->parts->column].type, "INTEGER") == 0) {
        table->rowid_column = index->parts->column;
        table->rowid_conflict = index->conflict;
        table->has_sequence = p->is_autoincrement;
        goto done;
    }
    if (p->is_autoincrement) {
        parser_error(p, "AUTOINCREMENT is only allowed on an INTEGER PRIMARY KEY");
        goto done;
    }
    same = constraint_find(p, index);
    if (same && same->conflict && index->conflict && same->conflict != index->conflict)
        parser_error(p, "conflicting ON CONFLICT clauses specified");
    if (same) {
        same->is_primary |= index->is_primary;
        same->conflict |= index->conflict;
        goto done;
    }
    index->unique = true;
    index->name =
        parser_own(p, sqlite3_mprintf("sqlite_autoindex_%s_%d", table->name, p->n_constraints + 1));
    index_insert_take(p, index, p->n_constraints++);
    return;
done:
    index_fini(index);
}

static void index_parse(parser *p, bool unique)
{
    table_sql *table = p->table;
    index_sql index = {.unique = unique, .name = parser_name(p)};

    index_body_parse(p, &index);
    for (int i = 0; !p->rc && i < table->n_indexes; i++)
        if (sqlite3_stricmp(table->indexes[i].name, index.name) == 0)
            parser_error(p, "index %s already exists", index.name);
    index_insert_take(p, &index, table->n_indexes);
}

/* ---------------------------------------------------------------- columns */

static affinity affinity_of(const char *type)
{
    static const struct {
        const char *pattern;
        affinity affinity;
    } rules[] = {
        {"%INT%", AFFINITY_INTEGER}, {"%CHAR%", AFFINITY_TEXT}, {"%CLOB%", AFFINITY_TEXT},
        {"%TEXT%", AFFINITY_TEXT},   {"%BLOB%", AFFINITY_BLOB}, {"%REAL%", AFFINITY_REAL},
        {"%FLOA%", AFFINITY_REAL},   {"%DOUB%", AFFINITY_REAL},
    };

    if (!*type)
        return AFFINITY_BLOB;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (sqlite3_strlike(rules[i].pattern, type, 0) == 0)
            return rules[i].affinity;
    return AFFINITY_NUMERIC;
}

static void type_parse(parser *p, column_sql *column)
{
    sql_token first = p->token;

    p->end = first.text;
    /* SQLite takes GENERATED for a word of the type; here it begins what is refused. */
    while (sql_token_is_type(&p->token) && !sql_token_is(&p->token, "GENERATED"))
        parser_next(p);
    if (p->end > first.text && parser_accept(p, '(')) {
        int n = 0;
        do {
            if (!parser_accept(p, '-'))
                parser_accept(p, '+');
            parser_expect(p, TOKEN_NUMBER);
        } while (++n < 2 && parser_accept(p, ','));
        parser_expect(p, ')');
    }
    column->type = parser_own(p, sql_dequote(first.text, (int)(p->end - first.text)));
    if (!column->type)
        return;
    if (p->end > first.text && first.kind != TOKEN_WORD &&
        (!*column->type || p->end > first.text + first.length)) /* SQLite has its own ideas there */
        parser_error(p, "column %s: a type in quotes stands alone and is not empty", column->name);
    column->affinity = affinity_of(column->type);
    if (sqlite3_strlike("%HIDDEN%", column->type, 0) == 0)
        parser_error(p, "column %s: a type with HIDDEN in it would hide the column from SELECT *",
                     column->name);
}

typedef enum { EXPRESSION_PLAIN, EXPRESSION_SUBQUERY, EXPRESSION_PARAMETER } expression_kind;

/* Go behind an expression in parentheses. That it is one, SQLite will say when it evaluates it; but
** it would evaluate subqueries and parameters too, which neither a DEFAULT nor a CHECK can have.
** x IN table is one more way to write a subquery. */
static expression_kind expression_skip(parser *p)
{
    expression_kind found = EXPRESSION_PLAIN;
    int depth = 0;

    do {
        sql_token *t = &p->token;
        depth += (t->kind == '(') - (t->kind == ')');
        if (t->kind == TOKEN_END || t->kind == TOKEN_ILLEGAL)
            parser_unexpected(p);
        else if (t->kind == TOKEN_VARIABLE)
            found = EXPRESSION_PARAMETER;
        else if (sql_token_is(t, "SELECT") || sql_token_is(t, "VALUES"))
            found = EXPRESSION_SUBQUERY;
        else if (parser_accept_word(p, "IN")) {
            if (t->kind != '(')
                found = EXPRESSION_SUBQUERY;
            continue;
        }
        parser_next(p);
    } while (depth > 0 && !p->rc);
    return found;
}

static void default_parse(parser *p, column_sql *column)
{
    const char *start = p->token.text;
    bool has_sign = parser_accept(p, '-') || parser_accept(p, '+');
    sql_token t = p->token;
    char *word;

    sqlite3_free(column->default_sql);
    column->default_sql = NULL;
    if (t.kind == TOKEN_NUMBER || t.kind == TOKEN_STRING || t.kind == TOKEN_BLOB ||
        sql_token_in(&t, literal_words) ||
        (!has_sign && (sql_token_is(&t, "TRUE") || sql_token_is(&t, "FALSE")))) {
        parser_next(p);
    } else if (t.kind == '(' && !has_sign) {
        if (expression_skip(p) != EXPRESSION_PLAIN)
            parser_error(p, "default value of column [%s] is not constant", column->name);
    } else if (sql_token_is_id(&t) && !has_sign) { /* a string, for SQLite */
        word = parser_own(p, sql_dequote(t.text, t.length));
        parser_next(p);
        column->default_sql = parser_own(p, sqlite3_mprintf("%Q", word));
        sqlite3_free(word);
        return;
    } else {
        parser_unexpected(p);
    }
    if (!p->rc && !sql_token_is(&t, "NULL"))
        column->default_sql = parser_own(p, sqlite3_mprintf("%.*s", (int)(p->end - start), start));
}

/* ---------------------------------------------------------------- CHECK */

static bool is_space(char c)
{
    return c && strchr(" \t\n\v\f\r", c);
}

/* The text of an expression in parentheses is its name too, quotes as a whole name's taken off: so
** does SQLite. */
static void check_parse(parser *p)
{
    table_sql *table = p->table;
    const char *start = p->token.text + 1, *end;
    expression_kind kind = EXPRESSION_PLAIN;
    sql_token inner = p->token;
    check_sql *check;

    sql_token_next(&inner);
    if (p->token.kind == '(' && inner.kind != ')') {
        kind = expression_skip(p);
    } else {
        parser_accept(p, '(');
        parser_unexpected(p);
    }
    if (kind != EXPRESSION_PLAIN)
        parser_error(p, "%s prohibited in CHECK constraints",
                     kind == EXPRESSION_SUBQUERY ? "subqueries" : "parameters");
    if (!p->rc)
        table->checks = parser_grow(p, table->checks, table->n_checks, sizeof *check);
    if (p->rc)
        return;
    while (is_space(*start))
        start++;
    for (end = p->end - 1; is_space(end[-1]);)
        end--;
    check = &table->checks[table->n_checks++];
    *check = (check_sql){0};
    check->expression = parser_own(p, sqlite3_mprintf("%.*s", (int)(end - start), start));
    if (p->constraint.kind)
        check->name = parser_own(p, sql_dequote(p->constraint.text, p->constraint.length));
    else
        check->name = parser_own(p, sql_dequote(start, (int)(end - start)));
}

/* CONSTRAINT and its name, which stays until another column or a comma: of all constraints only a
** CHECK has use for it. */
static void constraint_name_parse(parser *p)
{
    p->constraint = p->token;
    sqlite3_free(parser_name(p));
}

static void constraint_name_forget(parser *p)
{
    p->constraint.kind = TOKEN_END;
}

/* ---------------------------------------------------------------- columns again */

/* PRIMARY KEY and UNIQUE of one column. */
static void column_constraint(parser *p, int column, bool is_primary)
{
    index_sql index = {.is_primary = is_primary};
    bool desc = is_primary && parser_accept_word(p, "DESC");

    if (is_primary && !desc)
        parser_accept_word(p, "ASC");
    index.conflict = conflict_parse(p, true);
    p->is_autoincrement = is_primary && parser_accept_word(p, "AUTOINCREMENT");
    index_part_add(p, &index, column, (int)p->table->columns[column].collation, desc);
    constraint_add_take(p, &index, !desc);
}

/* COLLATE holds for constraints written before it, too. */
static void column_collate(parser *p, int column)
{
    table_sql *table = p->table;

    table->columns[column].collation = parser_collation(p);
    for (int i = 0; i < table->n_indexes; i++)
        if (table->indexes[i].parts->column == column)
            table->indexes[i].parts->collation = (uint8_t)table->columns[column].collation;
}

static void column_constraints(parser *p, int i)
{
    column_sql *column = &p->table->columns[i];

    for (;;) {
        if (parser_accept_word(p, "CONSTRAINT")) {
            constraint_name_parse(p);
        } else if (parser_accept_word(p, "CHECK")) {
            check_parse(p);
        } else if (parser_accept_word(p, "DEFAULT")) {
            default_parse(p, column);
        } else if (parser_accept_word(p, "NOT")) {
            parser_expect_word(p, "NULL");
            column->not_null_conflict = conflict_parse(p, true);
            column->not_null = true;
        } else if (parser_accept_word(p, "NULL")) {
            conflict_parse(p, false);
        } else if (parser_accept_word(p, "PRIMARY")) {
            parser_expect_word(p, "KEY");
            column_constraint(p, i, true);
        } else if (parser_accept_word(p, "UNIQUE")) {
            column_constraint(p, i, false);
        } else if (parser_accept_word(p, "COLLATE")) {
            column_collate(p, i);
        } else if (!parser_refuse(p)) {
            return;
        }
    }
}

/* A column of that name, which is taken over. */
static void column_parse_take(parser *p, char *name)
{
    table_sql *table = p->table;
    column_sql *column;

    if (table->n_columns == COLUMN_LIMIT - HIDDEN_COLUMNS)
        parser_error(p, "too many columns on %s (at most %d)", table->name,
                     COLUMN_LIMIT - HIDDEN_COLUMNS);
    else if (column_find(table, name) >= 0)
        parser_error(p, "duplicate column name: %s", name);
    else if (sqlite3_stricmp(name, "_command") == 0 || sqlite3_stricmp(name, "_revision") == 0 ||
             sqlite3_stricmp(name, "_snapshot") == 0)
        parser_error(p, "column name %s is reserved for a hidden column", name);
    if (!p->rc)
        table->columns = parser_grow(p, table->columns, table->n_columns, sizeof *column);
    if (p->rc) {
        sqlite3_free(name);
        return;
    }
    column = &table->columns[table->n_columns++];
    *column = (column_sql){.name = name};
    constraint_name_forget(p);
    type_parse(p, column);
    column_constraints(p, table->n_columns - 1);
}

/* ---------------------------------------------------------------- the whole */

static void constraint_parse(parser *p)
{
    if (parser_accept_word(p, "CONSTRAINT")) {
        constraint_name_parse(p);
    } else if (parser_accept_word(p, "CHECK")) {
        check_parse(p);
        conflict_parse(p, false);
    } else if (parser_accept_word(p, "INDEX")) {
        index_parse(p, false);
    } else if (!parser_refuse(p)) {
        index_sql index = {.is_primary = parser_accept_word(p, "PRIMARY")};
        parser_expect_word(p, index.is_primary ? "KEY" : "UNIQUE");
        if (!index.is_primary && parser_accept_word(p, "INDEX")) {
            index_parse(p, true);
            return;
        }
        index_parts_parse(p, &index);
        index.conflict = conflict_parse(p, true);
        constraint_add_take(p, &index, true);
    }
}

static void option_parse(parser *p, const char *name)
{
    sql_token *t = &p->token;
    char *value;

    if (t->kind != TOKEN_NUMBER && !sql_token_is_name(t)) {
        parser_unexpected(p);
        return;
    }
    value = parser_own(p, sql_dequote(t->text, t->length));
    parser_next(p);
    if (sqlite3_stricmp(name, "store") == 0) {
        if (value && !*value)
            parser_error(p, "store= needs a name");
        else if (p->table->store)
            parser_error(p, "store= is given twice");
        else
            p->table->store = value;
        if (!p->rc)
            return;
    } else if (sqlite3_stricmp(name, "storage") != 0) {
        parser_error(p, "unknown option: %s (there are store=NAME and storage=memory)", name);
    } else if (value && sqlite3_stricmp(value, "memory") != 0) {
        parser_error(p, "unknown storage: %s (there is storage=memory)", value);
    }
    p->table->storage_memory = true;
    sqlite3_free(value);
}

static void order_refuse(parser *p, const sql_token *t)
{
    parser_error(p, "near \"%.*s\": syntax error; columns come first, then constraints and indexes",
                 t->length, t->text);
}

static void item_parse(parser *p)
{
    sql_token first = p->token;
    char *name;

    if (sql_token_in(&first, constraint_words)) {
        if (!p->table->n_columns)
            order_refuse(p, &first);
        if (p->has_constraints)
            constraint_name_forget(p); /* not at the first comma: so does SQLite */
        p->has_constraints = true;
        while (sql_token_in(&p->token, constraint_words))
            constraint_parse(p);
        return;
    }
    name = parser_name(p);
    if (name && parser_accept(p, '=')) {
        option_parse(p, name);
        sqlite3_free(name);
        return;
    }
    if (sql_token_is(&first, "LIKE"))
        parser_error(p, "LIKE table stands alone at the beginning; a column named like needs quotes");
    else if (sql_token_is(&first, "WITHOUT") && sql_token_is(&p->token, "ROWID"))
        parser_error(p, "WITHOUT ROWID is not supported: leave it out, rows are found by their PRIMARY KEY all the "
                        "same; a column of that name needs quotes");
    else if (sql_token_is(&first, "STRICT") && (p->token.kind == ',' || p->token.kind == TOKEN_END))
        parser_error(p, "STRICT is not supported: write CHECK (typeof(x) = 'integer') of a column x; a column of "
                        "that name needs quotes");
    else if (p->has_constraints)
        order_refuse(p, &first);
    column_parse_take(p, name);
}

static void body_parse(parser *p)
{
    do
        item_parse(p);
    while (parser_accept(p, ','));
    if (p->token.kind != TOKEN_END)
        parser_unexpected(p);
}

/* What can be said only when all is read. */
static void table_finish(parser *p)
{
    table_sql *table = p->table;
    int n = 0;

    if (table->store && !table->n_columns)
        return; /* those of a table in the store */
    if (!table->n_columns)
        parser_error(p, "there are no columns; write them as in CREATE TABLE, for example USING "
                        "statedb(id INTEGER PRIMARY KEY, name TEXT)");
    for (int i = 0; i < table->n_columns && !p->rc; i++) {
        column_sql *column = &table->columns[i];
        if (i == table->rowid_column) { /* where SQLite has no use for a DEFAULT */
            sqlite3_free(column->default_sql);
            column->default_sql = NULL;
        } else if (column->default_sql && !column->not_null) {
            parser_error(p,
                         "column %s: DEFAULT needs NOT NULL: SQLite does not tell a virtual table "
                         "whether NULL was given or nothing; add NOT NULL, or leave DEFAULT out",
                         column->name);
        }
    }
    for (int i = 0; i < table->n_indexes; i++) { /* the rowid is unique without an index,
                                                     ** unless it replaces and the index forbids */
        index_sql *index = &table->indexes[i];
        bool is_late = index->conflict == SQLITE_REPLACE;
        if (i < p->n_constraints && index->n_parts == 1 &&
            index->parts->column == table->rowid_column &&
            (table->rowid_conflict != SQLITE_REPLACE || is_late)) {
            index_fini(index);
        } else {
            table->has_replace |= is_late;
            table->indexes[n++] = *index;
        }
    }
    table->n_indexes = n;
}

static void table_declare(parser *p)
{
    table_sql *table = p->table;
    sqlite3_str *sql = sqlite3_str_new(NULL);
    bool is_name_free = column_find(table, table->name) < 0 &&
                        sqlite3_stricmp(table->name, "_revision") != 0 &&
                        sqlite3_stricmp(table->name, "_snapshot") != 0;

    sqlite3_str_appendall(sql, "CREATE TABLE x(");
    for (int i = 0; i < table->n_columns; i++) {
        const column_sql *column = &table->columns[i];
        bool is_rowid = i == table->rowid_column;
        sqlite3_str_appendf(sql, "\"%w\"", column->name);
        if (*column->type)
            sqlite3_str_appendf(sql, " \"%w\"", column->type);
        if (column->collation != SDB_BINARY && !is_rowid)
            sqlite3_str_appendf(sql, " COLLATE %s", sql_collations[column->collation]);
        sqlite3_str_appendf(sql, "%s%s, ", is_rowid ? " PRIMARY KEY" : "",
                            column->not_null || is_rowid ? " NOT NULL" : "");
    }
    sqlite3_str_appendf(sql, "\"%w\" HIDDEN, \"_revision\" INTEGER HIDDEN, \"_snapshot\" TEXT HIDDEN)",
                        is_name_free ? table->name : "_command");
    table->declare = parser_own(p, sqlite3_str_finish(sql));
    table->n_hidden = HIDDEN_COLUMNS;
}

bool table_sql_is_constraint(const char *text)
{
    sql_token t = {.text = text};

    sql_token_next(&t);
    return sql_token_in(&t, constraint_words);
}

bool table_sql_is_option(const char *argument)
{
    sql_token t = {.text = argument};

    sql_token_next(&t);
    if (!sql_token_is_name(&t))
        return false;
    sql_token_next(&t);
    return t.kind == '=';
}

/* The arguments one after the other, the options among them or left out; NULL: no memory. */
static char *arguments_join(int argc, const char *const *argv, bool has_options)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);
    const char *comma = "";

    for (int i = 3; i < argc; i++) {
        if (!has_options && table_sql_is_option(argv[i]))
            continue;
        sqlite3_str_appendf(sql, "%s%s", comma, argv[i]);
        comma = ", ";
    }
    if (!sqlite3_str_length(sql) && !sqlite3_str_errcode(sql)) {
        sqlite3_free(sqlite3_str_finish(sql));
        return sqlite3_mprintf("");
    }
    return sqlite3_str_finish(sql);
}

int table_sql_parse(int argc, const char *const *argv, table_sql **out, char **err)
{
    parser p = {.rc = SQLITE_OK};
    char *text;

    p.table = sqlite3_malloc(sizeof *p.table);
    if (!p.table)
        return SQLITE_NOMEM;
    *p.table = (table_sql){.rowid_column = -1};
    text = parser_own(&p, arguments_join(argc, argv, true));
    p.table->sql = parser_own(&p, arguments_join(argc, argv, false));
    p.table->name = parser_own(&p, sqlite3_mprintf("%s", argv[2]));
    if (!p.rc)
        parser_check_name(&p, p.table->name);
    parser_start(&p, p.table, text ? text : "");
    if (p.token.kind != TOKEN_END)
        body_parse(&p);
    if (!p.rc)
        table_finish(&p);
    if (!p.rc)
        table_declare(&p);
    sqlite3_free(text);
    if (p.rc) {
        table_sql_free(p.table);
        *err = p.error;
    } else {
        *out = p.table;
    }
    return p.rc;
}

void table_sql_free(table_sql *table)
{
    if (!table)
        return;
    for (int i = 0; i < table->n_columns; i++) {
        sqlite3_free(table->columns[i].name);
        sqlite3_free(table->columns[i].type);
        sqlite3_free(table->columns[i].default_sql);
    }
    for (int i = 0; i < table->n_indexes; i++)
        index_fini(&table->indexes[i]);
    for (int i = 0; i < table->n_checks; i++) {
        sqlite3_free(table->checks[i].name);
        sqlite3_free(table->checks[i].expression);
    }
    sqlite3_free(table->checks);
    sqlite3_free(table->columns);
    sqlite3_free(table->indexes);
    sqlite3_free(table->name);
    sqlite3_free(table->store);
    sqlite3_free(table->sql);
    sqlite3_free(table->declare);
    sqlite3_free(table);
}

bool table_sql_is_same(const char *a, const char *b)
{
    sql_token x = {.text = a}, y = {.text = b};
    bool is_text; /* a word after DEFAULT is a string */

    do {
        is_text = sql_token_is(&x, "DEFAULT");
        sql_token_next(&x);
        sql_token_next(&y);
        if (x.kind != y.kind || x.length != y.length)
            return false;
        if (x.kind == TOKEN_WORD && !is_text ? sqlite3_strnicmp(x.text, y.text, x.length) != 0
                                             : memcmp(x.text, y.text, (size_t)x.length) != 0)
            return false;
    } while (x.kind != TOKEN_END);
    return true;
}
