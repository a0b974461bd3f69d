package removal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// The engine stops the agents that the journal knows. Any other process below the root, for example
// the agent of a lost entry, would run on without its files on a machine that counts as clean. So a
// command reads the processes before it touches anything, and again when the agents are gone.

// known are the names of directories below images/ and agents/ in which the engine stops processes.
type known struct{ images, agents map[string]bool }

func knownTo(tx *journal.Tx) (known, error) {
	k := known{map[string]bool{}, map[string]bool{}}
	in, err := tx.Inventory()
	for _, i := range in.Instances {
		k.add(i.Agent, i.Image)
	}
	for _, c := range in.Changes {
		k.add(c.Agent, c.To)
		if c.From != nil {
			k.add(c.Agent, c.From.Image)
		}
	}
	return k, err
}

func (k known) add(agent string, image change.Manifest) {
	k.agents[agent] = true
	k.images[hex.EncodeToString(image.Digest())] = true
}

// stops reports whether the engine stops a process: one of an image that the journal knows, or one
// from elsewhere, for example a script, that works in the directory of an agent that it knows.
func (k known) stops(p proctree.Process, images, agents string) bool {
	if name, ok := firstBelow(images, p.Exe); ok {
		return k.images[name]
	}
	if name, ok := firstBelow(agents, p.Path()); ok {
		return k.agents[name]
	}
	name, _ := firstBelow(images, p.Dir)
	return k.images[name]
}

// firstBelow returns the first element of a path below a directory.
func firstBelow(dir, path string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir+"/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}

// maxNamed is how many processes or links a refusal names.
const maxNamed = 10

// unmanagedProcesses describes the processes below the root that the engine does not stop.
func unmanagedProcesses(root layout.Root, k known) (words []string, err error) {
	images, agents := resolved(root.Images()), resolved(root.Agents())
	found, err := proctree.Below(images, agents)
	for _, p := range found {
		if !k.stops(p, images, agents) {
			words = append(words, fmt.Sprintf("%d at %s", p.PID, p.Path()))
		}
	}
	if n := len(words); n > maxNamed {
		words = append(words[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	return words, err
}

// resolved returns a directory as the kernel names it. The directory itself may be missing.
func resolved(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		return filepath.Join(parent, filepath.Base(dir))
	}
	return dir
}

// compare returns how far an inventory can be trusted: lost says why it may have forgotten agents.
// Unmanaged processes always count against it, unknown links only when it was lost.
func compare(root layout.Root, k known, lost string, processes []string) (lifecycle.Inventory, string, error) {
	words := processes
	if lost != "" {
		links, err := unknownLinks(root, k)
		if err != nil {
			return lifecycle.InventoryUntrusted, "", err
		}
		words = append(links, words...)
	}
	list := "unmanaged: " + strings.Join(words, ", ")
	switch {
	case len(words) == 0:
		return lifecycle.InventoryTrusted, "", nil
	case lost == "":
		return lifecycle.InventoryUntrusted, list, nil
	case len(k.agents) == 0:
		return lifecycle.InventoryNone, lost + "; " + list, nil
	}
	return lifecycle.InventoryUntrusted, lost + "; " + list, nil
}

// unknownLinks returns the links of agents that the inventory does not know.
func unknownLinks(root layout.Root, k known) (links []string, err error) {
	entries, err := os.ReadDir(root.Agents())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if isLink(root.Current(e.Name())) && !isTemporary(e.Name()) && !k.agents[e.Name()] {
			links = append(links, root.Relative(root.Current(e.Name())))
		}
	}
	return links[:min(len(links), maxNamed)], err
}

// A person installed the program that starts the executor, and the unit that runs it. A removal
// names them and leaves them.

// byHand says why they stay.
const byHand = "installed by hand; remove it now if you want"

// installedByHand returns the program, and the file of the unit when systemd started this process.
func installedByHand(program string) (paths []string) {
	if program != "" {
		paths = append(paths, program)
	}
	if os.Getenv("SYSTEMD_EXEC_PID") != strconv.Itoa(os.Getpid()) {
		return paths // not the main process of a service, although perhaps in its control group
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return append(paths, unitFile(string(groups), "/etc/systemd/system", "/run/systemd/system",
		"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")...)
}

// unitFile returns the file of the service of a control group, from the first directory that has it.
func unitFile(groups string, dirs ...string) []string {
	unit := ""
	for line := range strings.Lines(groups) {
		if name := path.Base(strings.TrimSpace(line)); strings.HasSuffix(name, ".service") {
			unit = name
		}
	}
	for _, dir := range dirs {
		if file := filepath.Join(dir, unit); unit != "" && !layout.Missing(file) {
			return []string{file}
		}
	}
	return nil
}
