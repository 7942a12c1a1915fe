# cmake -DIN=<file> -DOUT=<file.c> -DNAME=<name> -P embed.cmake: a file as constants of C.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," data "${hex}")
file(WRITE ${OUT} "#include <stddef.h>\n"
    "extern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_len;\n"
    "const unsigned char ${NAME}[] = { ${data} };\nconst size_t ${NAME}_len = ${bytes};\n")
