package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

const upgradedServers = 20

// measureUpgrade upgrades the sample agent on 20 local servers, from the command to the
// last passed health check, and does the same with Ansible where it is installed.
func measureUpgrade(b *testing.B) []figure {
	w := begin(b)
	w.versions(quick("1.0.0"), quick("2.0.0"))
	var servers []*rig.Server
	for i := range upgradedServers {
		servers = append(servers, must(w.AddServer(b.Context(), fmt.Sprintf("s%02d", i)))(b))
	}
	w.waitOnline(upgradedServers)
	w.ok("install", "beacon@1.0.0", "--at-once", "--on", "all")
	var ours []float64
	for i := range 4 {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		started := time.Now()
		w.ok("up", "beacon@"+version, "--on", "all", "--yes", "--at-once")
		ours = append(ours, time.Since(started).Seconds())
		allAnswer(b, servers, version)
	}
	f := figure{fmt.Sprintf("upgrade of %d servers until all are healthy, s", upgradedServers), spread(ours, "%.2f"),
		"ansible is not installed", "", "<= 0.1"}
	if _, err := exec.LookPath("ansible-playbook"); err == nil {
		took := ansible(b, w)
		f.limit, f.ratio = "ansible: "+spread(took, "%.1f"), ratio(median(ours), median(took))
	}
	return []figure{f}
}

func allAnswer(b *testing.B, servers []*rig.Server, version string) {
	for _, s := range servers {
		if got, err := s.Get(b.Context(), "/"); err != nil || got != version {
			b.Fatalf("%s answers %q (%v), want %s", s.Name, got, err, version)
		}
	}
}

// ansible does what a person would do instead: unpack, switch the link, restart, probe, on 20 hosts of this machine.
func ansible(b *testing.B, w *world) []float64 {
	dir := filepath.Join(w.Dir, "ansible")
	check(b, os.MkdirAll(dir, 0o700))
	var inventory strings.Builder
	for i := range upgradedServers {
		fmt.Fprintf(&inventory,
			"h%02d ansible_connection=local root=%s/h%02d port=%d ansible_python_interpreter=auto_silent\n", i, dir, i,
			21000+i)
	}
	archive := filepath.Join(dir, "beacon.tar.gz")
	run(b, exec.CommandContext(b.Context(), "tar", "-C", w.Bin, "-czf", archive, "beacon"))
	files := map[string]string{"inventory": inventory.String(), "upgrade.yml": playbook, "stop.yml": stopPlaybook}
	for name, text := range files {
		check(b, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	play := func(book, version string) {
		cmd := exec.CommandContext(b.Context(), "ansible-playbook", "-i", "inventory", "-f", "20", book, "-e",
			"version="+version, "-e", "archive="+archive)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ANSIBLE_LOCAL_TEMP="+filepath.Join(dir, "tmp"),
			"ANSIBLE_REMOTE_TEMP="+filepath.Join(dir, "tmp"))
		run(b, cmd)
	}
	defer play("stop.yml", "none")
	var took []float64
	for _, version := range []string{"1.0.0", "2.0.0", "1.0.0"} {
		started := time.Now()
		play("upgrade.yml", version)
		took = append(took, time.Since(started).Seconds())
	}
	return took[1:] // the first one is an install
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
