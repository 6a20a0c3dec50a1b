//go:build !purego

#include "textflag.h"

// func prefetch(lines []line, numbers []uint64)
TEXT ·prefetch(SB), NOSPLIT, $0-48
	MOVQ  lines_base+0(FP), BX
	MOVQ  numbers_base+24(FP), SI
	MOVQ  numbers_len+32(FP), CX
	TESTQ CX, CX
	JZ    done

next:
	MOVQ       (SI), AX
	SHLQ       $6, AX
	PREFETCHT0 (BX)(AX*1)
	ADDQ       $8, SI
	DECQ       CX
	JNZ        next

done:
	RET
