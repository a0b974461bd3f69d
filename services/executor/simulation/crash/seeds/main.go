// Command seeds writes bugs that the executor's crash tests must catch, as overlays for the go command.
//
//	seeds DIR   writes DIR/NAME.json for each seed and prints NAME:PACKAGE:TEST, one line each
//
// PACKAGE and TEST say which crash test is for the seed. Build it with GOFLAGS=-overlay=DIR/NAME.json, so that
// the programs that the test builds have the bug as well. services/executor/crash-seeds.sh does that.
//
// Guarantees:
//
//  1. The production code knows nothing of a seed: no build tag, no hook.
//  2. A seed whose code has moved or changed is an error, not a build without the bug.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(1)
	}
}

// run expects services/executor as the working directory.
func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: seeds DIR")
	}
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	source, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	for _, s := range seeds {
		if _, err := s.write(source, dir); err != nil {
			return err
		}
		for _, t := range s.by {
			fmt.Printf("%s:%s:%s\n", s.name, t.pkg, t.run)
		}
	}
	return nil
}

// write writes the patched files and the overlay of a seed into dir and returns the path of the overlay.
// source is the absolute path of services/executor.
func (s seed) write(source, dir string) (string, error) {
	texts := map[string]string{}
	for _, e := range s.edits {
		if _, read := texts[e.file]; !read {
			text, err := os.ReadFile(filepath.Join(source, e.file))
			if err != nil {
				return "", fmt.Errorf("seed %s: %w", s.name, err)
			}
			texts[e.file] = string(text)
		}
		if n := strings.Count(texts[e.file], e.from); n != 1 {
			return "", fmt.Errorf("seed %s: %s contains %d times, want once: %s", s.name, e.file, n, e.from)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.from, e.to, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		patched := filepath.Join(dir, s.name+"-"+filepath.Base(file))
		if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(source, file)] = patched
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, s.name+".json")
	return path, os.WriteFile(path, overlay, 0o600)
}
