// Package sample makes images of the sample agent, beacon, by the operator's CLI.
//
// Guarantees:
//
//  1. What a version does not say is the recipe's own default, except that it listens on
//     the loopback address, at the port that is its server's label, and takes over beside
//     the old version.
package sample

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Agent is the name of the sample agent.
const Agent = "beacon"

// Version is one version of beacon. Only Version must be set.
type Version struct {
	Version   string
	Misbehave string // as beacon's own flag
	Host      string // where it listens, instead of 127.0.0.1
	Takeover  string // instead of overlap
	Socket    bool   // it is handed its socket
	Ready     string // how long it may take to be ready, as a duration
	Soak      string // how long it must stay up, as a duration
	Stop      string // how long it may take to stop, as a duration
}

// Recipe returns the text of its garrison.yaml.
func (v Version) Recipe() string {
	host, takeover := or(v.Host, "127.0.0.1"), or(v.Takeover, "overlap")
	at := fmt.Sprintf("%q", host+":${label.port}")
	args := []string{`"-listen"`, at, `"-version"`, `"${version}"`}
	if v.Misbehave != "" {
		args = append(args, `"-misbehave"`, fmt.Sprintf("%q", v.Misbehave))
	}
	ready := []string{"notify: true"}
	if v.Ready != "" {
		ready = append(ready, "timeout: "+v.Ready)
	}
	if v.Soak != "" {
		ready = append(ready, "soak: "+v.Soak)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "agent: %s\nversion: %s\nkind: daemon\ndescription: says its version over HTTP\nrun:\n", Agent,
		v.Version)
	fmt.Fprintf(&b, "  command: beacon\n  args: [%s]\n  takeover: %s\n  ready: {%s}\n", strings.Join(args, ", "),
		takeover, strings.Join(ready, ", "))
	if v.Stop != "" {
		fmt.Fprintf(&b, "  stop_timeout: %s\n", v.Stop)
	}
	if v.Socket {
		fmt.Fprintf(&b, "  sockets: [{name: http, listen: %s}]\n", at)
	}
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Fill creates a directory from which an image of the version can be built. bin is the
// directory of beacon. A file holds the version, so that each image has content of its own.
func (v Version) Fill(bin, dir string) error {
	if err := Fill(dir, filepath.Join(bin, "beacon"), "beacon", v.Recipe()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "VERSION"), []byte(v.Version), 0o600)
}

// Fill creates a directory from a program and a recipe.
func Fill(dir, program, as, recipe string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the agent's program (make builds it): %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, as), data, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "garrison.yaml"), []byte(recipe), 0o600)
}

// CLI runs the operator's command line.
type CLI func(ctx context.Context, args ...string) (string, error)

// Import builds images of beacon below a directory, imports them and activates them.
// The agent must exist.
func Import(ctx context.Context, cli CLI, bin, below string, versions ...Version) error {
	for _, v := range versions {
		dir := filepath.Join(below, Agent+"-"+v.Version)
		if err := v.Fill(bin, dir); err != nil {
			return err
		}
		if err := Activate(ctx, cli, dir); err != nil {
			return err
		}
	}
	return nil
}

// Activate builds the image of a directory, imports it and activates it.
func Activate(ctx context.Context, cli CLI, dir string) error {
	if _, err := cli(ctx, "image", "build", dir, "--out", dir+".gimg"); err != nil {
		return err
	}
	_, err := cli(ctx, "image", "import", dir+".gimg", "--activate")
	return err
}
