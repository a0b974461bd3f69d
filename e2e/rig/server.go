package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/pkg/freeport"
)

// Server is one server of the fleet: a root directory and an executor process.
type Server struct {
	Name     string
	Root     string
	Port     int // where its agent listens; a label of the server
	Executor *Process
	fleet    *Fleet
}

// AddServer enrols a server by the CLI, joins it with the token, and starts its executor.
func (f *Fleet) AddServer(ctx context.Context, name string, labels ...string) (*Server, error) {
	s, err := f.JoinServer(ctx, name, labels...)
	if err != nil {
		return nil, err
	}
	return s, s.Executor.Start()
}

// JoinServer is AddServer without the start of the executor.
func (f *Fleet) JoinServer(ctx context.Context, name string, labels ...string) (*Server, error) {
	var args []string
	for _, l := range labels {
		args = append(args, "--label", l)
	}
	return f.EnrollServer(ctx, name, args...)
}

// EnrollServer is JoinServer with flags for garrison server enroll.
func (f *Fleet) EnrollServer(ctx context.Context, name string, flags ...string) (*Server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	args := append([]string{"server", "enroll", name, "--label", "port=" + strconv.Itoa(port)}, flags...)
	token, err := f.CLI(ctx, args...)
	if err != nil {
		return nil, err
	}
	return f.joinAs(ctx, name, port, token)
}

// JoinWith joins a server with a token that exists. name is that of its directory.
func (f *Fleet) JoinWith(ctx context.Context, name, token string) (*Server, error) {
	return f.joinAs(ctx, name, 0, token)
}

func (f *Fleet) joinAs(ctx context.Context, name string, port int, token string) (*Server, error) {
	s := &Server{Name: name, Root: f.path("servers", name), Port: port, fleet: f}
	if err := s.Join(ctx, token); err != nil {
		return nil, err
	}
	f.register(s)
	return s, nil
}

// NewServer returns a server whose executor joins with a pooled token when it is started, by one command. name is that
// of its directory, and its agent's port a label of the token.
func (f *Fleet) NewServer(name, token string, port int) (*Server, error) {
	file := f.path(name + ".token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, err
	}
	s := &Server{Name: name, Root: f.path("servers", name), Port: port, fleet: f}
	f.register(s, "--token-file", file)
	return s, nil
}

// Stranger returns a server whose executor asks to join without a token when it is started.
func (f *Fleet) Stranger(name string) (*Server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	s := &Server{Name: name, Root: f.path("servers", name), Port: port, fleet: f}
	f.register(s, "--lobby", "--bus", f.URL(), "--bus-ca", f.CAFile())
	return s, nil
}

// register adds a server with its executor, which is not started yet.
func (f *Fleet) register(s *Server, flags ...string) {
	run := append([]string{"run", "--root", s.Root, "--beat-interval", f.Beat.String(), "--stop-agents"}, flags...)
	if f.Metrics {
		run = append(run, "--metrics-socket", f.MetricsSocket(s.Name))
	}
	if f.Check > 0 {
		run = append(run, "--check-interval", f.Check.String())
	}
	s.Executor = f.process("executor-"+s.Name, "executor", run...)
	f.servers = append(f.servers, s)
}

// Join runs the executor's join command with a token.
func (s *Server) Join(ctx context.Context, token string) error {
	executor := filepath.Join(s.fleet.Bin, "executor")
	join := exec.CommandContext(ctx, executor, "join", "--root", s.Root, "--token", "-")
	join.Stdin = strings.NewReader(token)
	out, err := join.CombinedOutput()
	if err != nil {
		return fmt.Errorf("join %s: %w: %s", s.Name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// URL is where the server's agent answers over HTTP.
func (s *Server) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.Port) }

// Get asks the server's agent over HTTP.
func (s *Server) Get(ctx context.Context, path string) (string, error) { return Get(ctx, s.URL()+path) }

// Get returns the body of an answer over HTTP with status 200, without blanks around it.
func Get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true // each request meets the process that listens now
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	return strings.TrimSpace(string(body)), nil
}

// AgentProcesses returns the ids of the processes whose program lies in the fleet's directory:
// agents, and nothing else.
func (f *Fleet) AgentProcesses() ([]int, error) {
	return ProcessesBelow(filepath.Join(f.Dir, "servers"))
}

// AgentProcesses returns the ids of the server's agents' processes.
func (s *Server) AgentProcesses() ([]int, error) { return ProcessesBelow(s.Root) }

// ProcessesBelow returns the ids of the processes whose program lies below a directory.
func ProcessesBelow(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && strings.HasPrefix(exe, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// killRest kills agents that their executors should have stopped, and returns an error that names them.
func (f *Fleet) killRest() error {
	pids, err := f.AgentProcesses()
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range pids {
		errs = append(errs, fmt.Errorf("an agent was left with pid %d", pid))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Joined reports whether the server still has its identity. An executor that uninstalled itself has none.
func (s *Server) Joined() bool {
	_, err := os.Lstat(filepath.Join(s.Root, "executor", "identity.json"))
	return err == nil
}

// NothingLeft returns an error when the server has processes or files of agents.
func (s *Server) NothingLeft() error {
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return errors.Join(err, fmt.Errorf("processes %v run", pids))
	}
	for _, dir := range []string{"agents", "images", "cache"} {
		entries, err := os.ReadDir(filepath.Join(s.Root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			return fmt.Errorf("%s/%s is left", dir, e.Name())
		}
	}
	return nil
}

// Clone returns a second executor process with a copy of a server's root.
func (f *Fleet) Clone(s *Server, root string) *Process {
	return f.process("executor-"+s.Name+"-clone", "executor", "run", "--root", root, "--beat-interval", f.Beat.String())
}
