package manifest

import "testing"

func TestAProbeThatNoServerCanMakeGoodIsRefused(t *testing.T) {
	for probe, ok := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "${label.host}:${label.port}": true, ":80": true,
		"127.0.0.1": false, "127.0.0.1:99999": false, "::1:8080": false, "127.0.0.1:0": false, "127.0.0.1:http": false,
	} {
		f := runFaults{&Faults{}}
		if f.tcp(probe); (f.Err() == nil) != ok {
			t.Errorf("tcp %s: %v", probe, f.Err())
		}
	}
	for probe, ok := range map[string]bool{
		"http://127.0.0.1/": true, "http://127.0.0.1:80/": true, "http://h:${label.port}/": true,
		"http://127.0.0.1:99999/": false, "http://127.0.0.1:0/": false,
	} {
		f := runFaults{&Faults{}}
		if f.http(probe); (f.Err() == nil) != ok {
			t.Errorf("http %s: %v", probe, f.Err())
		}
	}
}
