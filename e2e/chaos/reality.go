package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"io"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// reality is what a server has of an agent, without asking Garrison.
type reality struct {
	Linked    string   // the version that the agent's link leads to, or ""
	Processes []string // the version of each process
	Answers   string   // the version in the answer over HTTP, or ""
	Config    string   // the configuration that the process read, or ""
}

// inspect returns what a server has, by agent.
func (w *World) inspect(ctx context.Context, s *fleet.Server) (map[string]reality, error) {
	out := map[string]reality{}
	dirs, err := os.ReadDir(filepath.Join(s.Root, "agents"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range dirs {
		version, err := os.ReadFile(filepath.Join(currentOf(s, d.Name()), "VERSION"))
		if err != nil {
			version = []byte("unreadable")
		}
		out[d.Name()] = reality{Linked: string(version)}
	}
	pids, err := s.AgentProcesses()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		agent, version, ok := commandLine(pid)
		if !ok {
			continue // it ended meanwhile
		}
		r := out[agent]
		r.Processes = append(r.Processes, version)
		out[agent] = r
	}
	for agent, r := range out {
		url := s.URL()
		if agent == tuner {
			url = "http://127.0.0.1:" + strconv.Itoa(w.tuner[s.Name])
		}
		r.Answers, r.Config = get(ctx, url+"/"), get(ctx, url+"/config")
		out[agent] = r
	}
	return out, nil
}

// commandLine returns the agent and the version that a process was started as.
func commandLine(pid int) (agent, version string, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
	i := slices.Index(args, "-version")
	if err != nil || i < 0 || i+1 >= len(args) {
		return "", "", false
	}
	return filepath.Base(args[0]), args[i+1], true
}

// get returns the body of an HTTP response, or "" when the request fails.
func get(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	req.Close = true // each request meets the process that listens now
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(body))
}

// list returns the files below a directory, relative to it; none when it is missing.
func list(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out = append(out, rel)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}
