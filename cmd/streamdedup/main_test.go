package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// The seed of the tests looks like a setting of the program, which would warn of it.
	if err := os.Unsetenv("STREAMDEDUP_SEED"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"streamdedup": main})
}

// script runs the command line as users do. A script finds the sample files in
// $SAMPLES.
func script(t *testing.T, p testscript.Params) {
	t.Helper()
	samples, err := filepath.Abs("testdata/samples")
	if err != nil {
		t.Fatal(err)
	}
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("SAMPLES", samples)
		return nil
	}
	testscript.Run(t, p)
}

// TestScripts has one file a topic.
func TestScripts(t *testing.T) { script(t, testscript.Params{Dir: "testdata/script"}) }

func TestCase_OPS_01(t *testing.T) { caseScript(t, "OPS_01") }
func TestCase_OPS_02(t *testing.T) { caseScript(t, "OPS_02") }
func TestCase_WIN_07(t *testing.T) { caseScript(t, "WIN_07") }

func caseScript(t *testing.T, name string) {
	t.Helper()
	script(t, testscript.Params{Files: []string{"testdata/cases/" + name + ".txtar"}})
}
