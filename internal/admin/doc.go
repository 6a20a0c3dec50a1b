// Package admin is HTTP for people and for Prometheus: what an engine does, in
// figures and in words.
//
//	/metrics      for Prometheus; metrics.go has the names
//	/healthz      200 while the process lives, with a page for people that begins
//	              with "alive", or "degraded" when a partition goes no further
//	/readyz       200 when every assigned partition has its memory, else 503
//	              with the ones that do not
//	/debug/pprof  to callers on this machine only
//
// It reads the engine's snapshots, so a request never holds the engine up, and
// counts show what is committed: none ever falls, not even by a rollback.
package admin
