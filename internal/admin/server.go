package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streamdedup/streamdedup/pipeline"
)

// Server answers HTTP until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan error
}

// readHeaderTimeout bounds what a caller that never finishes its request costs.
const readHeaderTimeout = 10 * time.Second

// Serve listens on addr, host:port, and answers from now on. About is one line
// that says what the process does, for the page at /healthz.
func Serve(addr, about string, m *Metrics, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics on %s: %w", addr, err)
	}
	s := &Server{
		http: &http.Server{
			Handler:           handler(about, m),
			ReadHeaderTimeout: readHeaderTimeout,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		listener: l,
		done:     make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr is where it listens, with the port that was chosen for port 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close lets the requests under way end, until ctx does, and waits for it.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("close the metrics server: %w", err)
	}
	return nil
}

func handler(about string, m *Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if r.URL.Path != "/" {
			status = http.StatusNotFound
		}
		reply(w, status, "/metrics\n/healthz\n/readyz\n/debug/pprof/ (from this machine only)")
	})
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, page(about, m))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if missing := unready(m.snapshot(), m.restoring()); missing != "" {
			reply(w, http.StatusServiceUnavailable, missing)
			return
		}
		reply(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("/debug/pprof/", local(pprof.Index))
	mux.HandleFunc("/debug/pprof/cmdline", local(pprof.Cmdline))
	mux.HandleFunc("/debug/pprof/profile", local(pprof.Profile))
	mux.HandleFunc("/debug/pprof/symbol", local(pprof.Symbol))
	mux.HandleFunc("/debug/pprof/trace", local(pprof.Trace))
	return mux
}

func reply(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text) // a caller who is gone needs no answer
}

// local lets callers on this machine in, wherever the server listens: a profile
// shows command lines and memory.
func local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			reply(w, http.StatusForbidden, "profiles are for callers on this machine only")
			return
		}
		next(w, r)
	}
}

// unready is what must still happen before all partitions give verdicts, or "".
func unready(s *pipeline.Snapshot, progress map[pipeline.Partition]float64) string {
	if s == nil || len(s.Partitions) == 0 {
		return "no partition is assigned to this process yet; a member that died keeps its own until its session is over (--session-timeout)"
	}
	var restoring []string
	for i := range s.Partitions {
		if p := &s.Partitions[i]; !p.Restored {
			text := p.Partition.String()
			if done, begun := progress[p.Partition]; begun {
				text += fmt.Sprintf(" (%.0f%%)", 100*done)
			}
			restoring = append(restoring, text)
		}
	}
	if len(restoring) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d partitions are being restored: %s",
		len(restoring), len(s.Partitions), strings.Join(restoring, ", "))
}
