# Writes the example of one language from a document, so that the tests compile what readers copy.
# cmake -DIN=docs/library.md -DLANGUAGE=cpp -DOUT=file -P doc_example.cmake
file(READ ${IN} text)
string(FIND "${text}" "```${LANGUAGE}\n" start)
if(start EQUAL -1)
  message(FATAL_ERROR "${IN} has no example in ${LANGUAGE}")
endif()
string(SUBSTRING "${text}" ${start} -1 text)
string(FIND "${text}" "\n" first)
math(EXPR first "${first} + 1")
string(SUBSTRING "${text}" ${first} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} text)
file(WRITE ${OUT} "${text}")
