package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

const upgradedServers = 20

// measureUpgrade upgrades the sample agent on 20 local servers, from the command to the
// last passed health check, and does the same with Ansible where it is installed.
func measureUpgrade(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := twoVersions(ctx, w); err != nil {
		return nil, err
	}
	var servers []*rig.Server
	for i := range upgradedServers {
		server, err := w.AddServer(ctx, fmt.Sprintf("s%02d", i))
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	if err := waitOnline(ctx, w, upgradedServers); err != nil {
		return nil, err
	}
	if _, err := w.CLI(ctx, "install", "beacon@1.0.0", "--at-once", "--on", "all"); err != nil {
		return nil, err
	}
	var ours []float64
	for i := range 4 {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		started := time.Now()
		if _, err := w.CLI(ctx, "up", "beacon@"+version, "--on", "all", "--yes", "--at-once"); err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(started).Seconds())
		if err := allAnswer(ctx, servers, version); err != nil {
			return nil, err
		}
	}
	f := figure{
		fmt.Sprintf("upgrade of %d servers until all are healthy, s", upgradedServers),
		spread(ours, "%.2f"),
		"ansible is not installed",
		"",
		"<= 0.1",
	}
	if _, err := exec.LookPath("ansible-playbook"); err == nil {
		took, err := ansible(ctx, w)
		if err != nil {
			return nil, err
		}
		f.limit, f.ratio = "ansible: "+spread(took, "%.1f"), ratio(median(ours), median(took))
	}
	return []figure{f}, nil
}

func allAnswer(ctx context.Context, servers []*rig.Server, version string) error {
	for _, s := range servers {
		if got, err := s.Get(ctx, "/"); err != nil || got != version {
			return fmt.Errorf("%s answers %q (%w), want %s", s.Name, got, err, version)
		}
	}
	return nil
}

// ansible does what a person would do instead: unpack, switch the link, restart, probe, on 20 hosts of this machine.
func ansible(ctx context.Context, w *world) ([]float64, error) {
	dir := filepath.Join(w.Dir, "ansible")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var inventory strings.Builder
	for i := range upgradedServers {
		fmt.Fprintf(&inventory,
			"h%02d ansible_connection=local root=%s/h%02d port=%d ansible_python_interpreter=auto_silent\n", i, dir, i,
			21000+i)
	}
	archive := filepath.Join(dir, "beacon.tar.gz")
	pack := exec.CommandContext(ctx, "tar", "-C", w.Bin, "-czf", archive, "beacon")
	if out, err := pack.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar: %w: %s", err, out)
	}
	files := map[string]string{"inventory": inventory.String(), "upgrade.yml": playbook, "stop.yml": stopPlaybook}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	play := func(book, version string) error {
		cmd := exec.CommandContext(ctx, "ansible-playbook", "-i", "inventory", "-f", "20", book, "-e",
			"version="+version, "-e", "archive="+archive)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ANSIBLE_LOCAL_TEMP="+filepath.Join(dir, "tmp"),
			"ANSIBLE_REMOTE_TEMP="+filepath.Join(dir, "tmp"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ansible-playbook %s: %w: %s", book, err, out[max(0, len(out)-2000):])
		}
		return nil
	}
	defer func() { _ = play("stop.yml", "none") }()
	var took []float64
	for _, version := range []string{"1.0.0", "2.0.0", "1.0.0"} {
		started := time.Now()
		if err := play("upgrade.yml", version); err != nil {
			return nil, err
		}
		took = append(took, time.Since(started).Seconds())
	}
	return took[1:], nil // the first one is an install
}

const playbook = `- hosts: all
  gather_facts: false
  tasks:
    - file: {path: "{{ root }}/{{ version }}", state: directory}
    - unarchive: {src: "{{ archive }}", dest: "{{ root }}/{{ version }}", remote_src: true}
    - file: {src: "{{ root }}/{{ version }}", dest: "{{ root }}/current", state: link}
    - shell: |
        if [ -f {{ root }}/pid ]; then kill $(cat {{ root }}/pid); fi
        setsid {{ root }}/current/beacon -listen 127.0.0.1:{{ port }} -version {{ version }} \
          >{{ root }}/log 2>&1 </dev/null &
        echo $! >{{ root }}/pid
    - uri: {url: "http://127.0.0.1:{{ port }}/", return_content: true}
      register: answer
      until: answer.status == 200 and version in answer.content
      retries: 50
      delay: 0.2
`

const stopPlaybook = `- hosts: all
  gather_facts: false
  tasks:
    - shell: kill $(cat {{ root }}/pid)
`
