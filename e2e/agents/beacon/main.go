// Command beacon is a small real agent: it serves its version over HTTP, notifies its
// supervisor when it is ready, and misbehaves on request. The demo, the tests and the
// benchmarks install it.
//
//	GET /         the version
//	GET /pid      the process id
//	GET /config   the configuration file, as it was at the start
//	GET /slow     the version, after a third of a second
//	GET /healthz  ok
//
// It listens on the first socket that is passed to it (sd_listen_fds(3)), or else at
// -listen with SO_REUSEPORT, so that a new version can be ready before the old one stops.
// At SIGTERM it answers the accepted requests and exits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The ways to misbehave.
const (
	exitAtOnce = "exit"        // exits with 1 before it listens
	exitLater  = "exit-later"  // is ready, and exits with 1 half a second later
	neverReady = "never-ready" // listens, but never notifies its supervisor
	ignoreTerm = "ignore-term" // does not stop at SIGTERM
	flood      = "flood"       // writes as much as it can
	forks      = "fork"        // starts a child that outlives it, unless the whole group is stopped
	steers     = "steer"       // answers at /healthz and prints with what steers a terminal
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`ADDRESS` to serve HTTP at")
	version := flag.String("version", "0.0.0", "the `VERSION` to answer with")
	misbehave := flag.String("misbehave", "", "one of exit, exit-later, never-ready, ignore-term, flood, fork, steer")
	config := flag.String("config", "", "configuration `FILE` to read at the start")
	check := flag.Bool("check", false, "read the configuration and exit")
	flag.Parse()
	if err := run(*listen, *version, *misbehave, *config, *check); err != nil {
		fmt.Fprintln(os.Stderr, "beacon:", err)
		os.Exit(1)
	}
}

func run(listen, version, misbehave, config string, check bool) error {
	settings, err := readConfig(config)
	if err != nil || check {
		return err
	}
	fmt.Printf("beacon %s starts with pid %d\n", version, os.Getpid())
	if misbehave == exitAtOnce {
		return errors.New("asked to exit at once")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if misbehave == ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
		ctx = context.Background()
	}
	l, err := listener(ctx, listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(version, settings, misbehave), ReadHeaderTimeout: 5 * time.Second}
	d := serve(server, l)
	if misbehave != neverReady {
		if err := notify("READY=1"); err != nil {
			return err
		}
	}
	after, err := start(misbehave)
	if err != nil {
		return err
	}
	select {
	case <-after:
		return errors.New("asked to exit after a while")
	case err := <-d.served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Printf("beacon %s stops\n", version)
	return d.drain(stop, l)
}

// readConfig returns the content of a configuration file, which must not be empty; "" without a file.
func readConfig(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("configuration %s is empty", path)
	}
	return string(data), err
}

// firstSocket is the file descriptor of the first socket that is passed on.
const firstSocket = 3

// listener returns the socket that was passed to this process, or opens one.
func listener(ctx context.Context, listen string) (net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) || os.Getenv("LISTEN_FDS") == "0" {
		config := net.ListenConfig{Control: reusePort}
		return config.Listen(ctx, "tcp", listen)
	}
	f := os.NewFile(firstSocket, os.Getenv("LISTEN_FDNAMES"))
	l, err := net.FileListener(f) // has a duplicate
	return l, errors.Join(err, f.Close())
}

func handler(version, settings, misbehave string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, version) })
	mux.HandleFunc("GET /pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, os.Getpid()) })
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, settings) })
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Second / 3)
		fmt.Fprintln(w, version)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if misbehave == steers {
			answerHostile(w)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// hostile is text that clears the screen, rings, colors, turns the line around and ends it.
const hostile = "\x1b[2J\a\u009b31m\u202e\u2028\u2066"

// answerHostile answers with a status line that net/http would not write.
func answerHostile(w http.ResponseWriter) {
	fmt.Println(hostile)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 502 %s\r\nContent-Length: 0\r\n\r\n", hostile)
	_ = conn.Close()
}

// start begins to misbehave. The channel is closed when the process must exit.
func start(misbehave string) (<-chan time.Time, error) {
	switch misbehave {
	case exitLater:
		return time.After(500 * time.Millisecond), nil
	case flood:
		go func() {
			line := strings.Repeat("all work and no play ", 50)
			for {
				fmt.Println(line)
			}
		}()
	case forks:
		child := exec.Command("/proc/self/exe", "-misbehave", ignoreTerm)
		if err := child.Start(); err != nil {
			return nil, err
		}
		go func() { _ = child.Wait() }()
	}
	return nil, nil
}

// notify speaks the sd_notify protocol: one datagram to the socket named in the environment.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte(state))
	return err
}

func reusePort(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, set)
}
