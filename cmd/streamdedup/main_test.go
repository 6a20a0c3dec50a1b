package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"streamdedup": main})
}

// TestScripts runs the command line as users do: one file a topic. A script
// finds the sample files in $SAMPLES.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("testdata/samples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			return nil
		},
	})
}
