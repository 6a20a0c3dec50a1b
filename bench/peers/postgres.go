package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// inserted is how many rows go into one INSERT.
const inserted = 1000

// There is no index by time, which expiry would need: PostgreSQL is faster and
// smaller without.
const (
	createTable = `CREATE TABLE seen (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`
	insertNew   = `INSERT INTO seen (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING id`
)

// Postgres asks a PostgreSQL of its own, one INSERT for each batch of records, one
// connection for each partition. binaries is its folder of programs.
func Postgres(ctx context.Context, s *Stream, dir, binaries string) (Result, error) {
	r := Result{Peer: "postgres", Note: fmt.Sprintf("INSERT ... SELECT unnest ... ON CONFLICT DO NOTHING, %d rows each on %d connections, synchronous_commit off; nothing expires; bytes are of pg_total_relation_size", inserted, Partitions)}
	srv, address, err := startPostgres(ctx, dir, binaries)
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(filepath.Join(dir, "postgres")) }()
	defer srv.stop(os.Interrupt) // a fast shutdown
	var conn *pgx.Conn
	if err := srv.await(ctx, func() (err error) { conn, err = pgx.Connect(ctx, address); return err }); err != nil {
		return r, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&r.Version); err != nil {
		return r, err
	}
	r.Version, _, _ = strings.Cut(r.Version, " ")
	if _, err := conn.Exec(ctx, createTable); err != nil {
		return r, err
	}
	workers := make([]worker, Partitions)
	for i := range workers {
		each, err := pgx.Connect(ctx, address)
		if err != nil {
			return r, err
		}
		defer func() { _ = each.Close(context.WithoutCancel(ctx)) }()
		workers[i] = postgresWorker(each)
	}
	if r, err = measureRemote(ctx, r, s, srv, inserted, workers); err != nil {
		return r, err
	}
	var size uint64
	if err := conn.QueryRow(ctx, "SELECT pg_total_relation_size('seen')").Scan(&size); err != nil {
		return r, err
	}
	r.remembers(size, s.Distinct)
	return r, nil
}

func postgresWorker(conn *pgx.Conn) worker {
	ids := make([]string, 0, inserted)
	fresh := make(map[string]bool, inserted)
	return func(ctx context.Context, s *Stream, indices []int, passed []bool) error {
		ids = ids[:0]
		for _, i := range indices {
			ids = append(ids, string(s.ID(i)))
		}
		rows, err := conn.Query(ctx, insertNew, ids)
		if err != nil {
			return err
		}
		clear(fresh)
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			fresh[id] = true
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for n, i := range indices { // of the copies in one batch the first passes
			passed[i] = fresh[ids[n]]
			delete(fresh, ids[n])
		}
		return nil
	}
}

// startPostgres makes a data folder and starts a server on it. PostgreSQL refuses to
// run as root; it then runs as the user that its package made.
func startPostgres(ctx context.Context, dir, binaries string) (*server, string, error) {
	dir = filepath.Join(dir, "postgres")
	if err := os.RemoveAll(dir); err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", err
	}
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		id, err := packageUser()
		if err != nil {
			return nil, "", err
		}
		if err := os.Chown(dir, int(id.Uid), int(id.Gid)); err != nil {
			return nil, "", err
		}
		as = &syscall.SysProcAttr{Credential: id}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "-D", data, "-U", "peers", "-A", "trust", "-E", "UTF8", "--no-locale")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("make a data folder for PostgreSQL: %w: %s", err, bytes.TrimSpace(out))
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(filepath.Join(binaries, "postgres"), "-D", data, "-p", strconv.Itoa(port), "-k", "", "-h", "127.0.0.1",
		"-c", "synchronous_commit=off", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB")
	cmd.Dir, cmd.SysProcAttr = dir, as
	srv, err := startServer(ctx, filepath.Dir(dir), "postgres", cmd)
	if err != nil {
		return nil, "", err
	}
	return srv, fmt.Sprintf("postgres://peers@127.0.0.1:%d/postgres?sslmode=disable", port), nil
}

// packageUser is the user postgres.
func packageUser() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find the user that PostgreSQL runs as: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
