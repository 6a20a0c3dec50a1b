package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// pipelined is how many commands go to Redis at once on one connection.
const pipelined = 64

// Redis asks a redis-server of its own, SET id 1 NX EX window for each record,
// pipelined, one connection for each partition.
func Redis(ctx context.Context, s *Stream, dir string) (Result, error) {
	r := Result{Peer: "redis", Note: fmt.Sprintf("SET NX EX, pipelined by %d on %d connections, nothing saved to disk; bytes are of used_memory", pipelined, Partitions)}
	port, err := freePort()
	if err != nil {
		return r, err
	}
	srv, err := startServer(ctx, dir, "redis", exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir))
	if err != nil {
		return r, err
	}
	defer srv.stop(os.Interrupt)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port), PoolSize: Partitions, MinIdleConns: Partitions, MaxRetries: -1})
	defer client.Close()
	if err := srv.await(ctx, func() error { return client.Ping(ctx).Err() }); err != nil {
		return r, err
	}
	if r.Version, err = redisInfo(ctx, client, "redis_version"); err != nil {
		return r, err
	}
	before, err := usedMemory(ctx, client)
	if err != nil {
		return r, err
	}
	workers := make([]worker, Partitions)
	for i := range workers {
		workers[i] = redisWorker(client)
	}
	if r, err = measureRemote(ctx, r, s, srv, pipelined, workers); err != nil {
		return r, err
	}
	after, err := usedMemory(ctx, client)
	if err != nil {
		return r, err
	}
	r.remembers(after-before, s.Distinct)
	return r, nil
}

func redisWorker(client *redis.Client) worker {
	return func(ctx context.Context, s *Stream, indices []int, passed []bool) error {
		pipe := client.Pipeline()
		for _, i := range indices {
			pipe.SetNX(ctx, string(s.ID(i)), 1, Window)
		}
		answers, err := pipe.Exec(ctx)
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for n, answer := range answers {
			set, err := answer.(*redis.BoolCmd).Result()
			if err != nil {
				return err
			}
			passed[indices[n]] = set
		}
		return nil
	}
}

// redisInfo is one field of INFO.
func redisInfo(ctx context.Context, client *redis.Client, field string) (string, error) {
	info, err := client.Info(ctx).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO has no %s", field)
}

func usedMemory(ctx context.Context, client *redis.Client) (uint64, error) {
	text, err := redisInfo(ctx, client, "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}
