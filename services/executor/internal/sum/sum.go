// Package sum protects records of JSON against flipped bits: each carries a checksum over
// its name and its fields. Programs from before there were sums read past it, and a
// record that they wrote has none and is taken as it is.
package sum

import (
	"bytes"
	"fmt"
	"hash/crc32"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	before = `,"crc32":"`
	after  = `"}`
	size   = len(before) + 8 + len(after)
)

var table = crc32.MakeTable(crc32.Castagnoli)

func of(name string, object []byte) string {
	return fmt.Sprintf("%08x", crc32.Update(crc32.Checksum([]byte(name), table), table, object))
}

// Add returns a record with its checksum. object is a JSON object that is not empty.
func Add(name string, object []byte) []byte {
	return fmt.Appendf(bytes.Clone(object[:len(object)-1]), "%s%s%s", before, of(name, object), after)
}

// Check reports whether a record is as it was written. One without a checksum passes.
func Check(name string, record []byte) error {
	if len(record) <= size || !bytes.HasPrefix(record[len(record)-size:], []byte(before)) {
		return nil
	}
	object := append(bytes.Clone(record[:len(record)-size]), '}')
	if said := string(record[len(record)-size+len(before) : len(record)-len(after)]); said != of(name, object) {
		return fault.New(fault.Internal, "record %s is not as it was written: its checksum is wrong", name)
	}
	return nil
}
